"""``postmortem diff A B``: where two trainings part."""

import argparse

from postmortem.cli.arguments import adding, number
from postmortem.cli.output import add_report_options, emit

SUMMARY = "tell at which module two flight files or traces part"
EXAMPLES = """\
examples:
  postmortem diff good/rank0.flight bad/rank0.flight
  postmortem diff run/rank0.flight run/rank3.flight
  postmortem diff fp32.flight bf16.flight --tolerance 0.05
  postmortem diff run/rank0.flight run/rank0.flight --batches 100:101

A file is a flight file of the monitor, or a log with the frames that it printed
(trace_batches=...). Extremes and counts are compared, which is all that they hold.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add("a A", "a flight file, or a log with a trace")
    add("b B", "the other")
    add(
        "--tolerance X",
        "how much the largest |x| may differ, relative to its size; more where data types "
        "differ, and in traces, which have three digits (default: 0.01)",
        type=number(0, 1, "a number from 0 to 1"),
        default=0.01,
    )
    add("--batches N:M", "compare batch N of A with batch M of B", type=_batches)
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Compare, write the report, return the exit code."""
    from postmortem.analyses.diff import analyse

    return emit(analyse(args.a, args.b, tolerance=args.tolerance, batches=args.batches), args)


def _batches(text: str) -> tuple[int, int]:
    a, _, b = text.partition(":")
    if not (a.isdecimal() and b.isdecimal()) or len(text) > 30:
        raise argparse.ArgumentTypeError(f"{text!r} is not two numbers of batches, as 100:101")
    return int(a), int(b)
