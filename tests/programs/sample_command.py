"""The command line with one more command, `sample`, that draws a report made by hand or fails.

It says "ready" on standard error before it does what its argument says.
"""

import argparse
import signal
import sys
import types

from builders.reports import full_report
from postmortem.cli import main, output
from postmortem.errors import DebuggerError, EvidenceError

SAMPLE = types.ModuleType("postmortem.cli.sample")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("report", "evidence", "debugger", "file", "bug", "wait"))
    output.add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    print("ready", file=sys.stderr, flush=True)
    match args.what:
        case "evidence":
            raise EvidenceError("core.1\x1b[2J", "is empty", offset=16, hint="look at ulimit -c")
        case "debugger":
            raise DebuggerError("gdb gave no answer in 10 s", hint="try --engine native")
        case "file":
            open("/nonexistent/core")
        case "bug":
            raise ValueError("unforeseen\nsecond line")
        case "wait":
            signal.pause()
    return output.emit(full_report(), args)


SAMPLE.SUMMARY = "draw a sample"
SAMPLE.add_arguments = add_arguments
SAMPLE.run = run
sys.modules["postmortem.cli.sample"] = SAMPLE
main.COMMANDS = ("sample", "rules")
sys.exit(main.main())
