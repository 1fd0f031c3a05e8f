"""``postmortem doctor``: what this machine lacks for good evidence, and how to get it."""

from __future__ import annotations

import argparse

from postmortem.cli import output

SUMMARY = "say what this machine lacks for good evidence, and how to get it"
EXAMPLES = """\
example:
  postmortem doctor
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--gdb",
        metavar="PATH",
        help="check this gdb (default: $POSTMORTEM_GDB, then PATH, then the wheel)",
    )
    output.add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Look at this machine, write the report, return the exit code."""
    from postmortem.analyses import doctor

    return output.emit(doctor.analyse(gdb=args.gdb), args)
