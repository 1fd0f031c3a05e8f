"""``postmortem triage``: all evidence of a dead job, one verdict."""

import argparse
import sys
import time

from postmortem.cli.arguments import add_world_size, adding
from postmortem.cli.output import add_report_options, emit, timed
from postmortem.cli.progress import Status

SUMMARY = "find all evidence under some paths and tell what happened"
EXAMPLES = """\
examples:
  postmortem triage job-4711/
  postmortem triage evidence.tar.gz --json
  postmortem job-4711/                      the same: triage is what no command means
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add(
        "paths PATH",
        "folders, files and archives (.tar, .tar.gz, .zip) with what a job left behind: logs, "
        "cores, strace logs, stacks, flight recorders, kernel logs, checkpoints, our own reports",
        nargs="+",
    )
    add_world_size(parser)
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Explain the evidence and write the report."""
    from postmortem.analyses.triage import TriageOptions, analyse

    began = time.monotonic()
    options = TriageOptions(
        world_size=args.world_size, verbose=args.verbose, redact=not args.no_redact
    )
    with Status() as status:
        shown = sys.stderr.isatty() and not args.quiet
        report = analyse(args.paths, options, status if shown else None)
    return emit(timed(report, began), args)
