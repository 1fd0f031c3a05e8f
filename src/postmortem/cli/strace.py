"""``postmortem strace``: explain system-call logs."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from postmortem.cli.output import add_report_options, emit

if TYPE_CHECKING:
    from postmortem.analyses.straceask import Query

SUMMARY = "explain strace logs: which file was it, what ended the program"
EXAMPLES = """\
examples:
  postmortem strace strace.txt --find ENOSPC
  postmortem strace strace.txt
  zcat strace.txt.gz | postmortem strace - --find "EACCES path=/data/*"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="+",
        help="a log of strace, also packed (.gz, .zst, .xz); the prefix given to strace -ff; a "
        "folder with logs; or - for standard input",
    )
    parser.add_argument(
        "--find",
        metavar="QUERY",
        action="append",
        default=[],
        type=_query,
        help="answer only this: an errno (ENOSPC), a system call (openat), a signal (SIGKILL), "
        "several with commas; or terms that must all hold: errno=, syscall=, path=GLOB, pid=, fd= "
        "(default: the whole summary)",
    )
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Explain the logs and write the report."""
    from dataclasses import replace

    from postmortem.analyses.strace import StraceOptions, analyse

    began = time.monotonic()
    options = StraceOptions(
        queries=tuple(args.find), verbose=args.verbose, redact=not args.no_redact
    )
    report = analyse(args.logs, options)
    took = time.monotonic() - began
    return emit(
        replace(report, footer=f"{took:.2f} s · {report.footer} · -v, --json for more"), args
    )


def _query(text: str) -> Query:
    from postmortem.analyses.straceask import parse

    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
