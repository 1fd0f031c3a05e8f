"""``postmortem logs``: which rank of a job failed first, and who are its victims."""

import argparse
import gc
import sys
import time

from postmortem.cli.arguments import add_world_size, adding
from postmortem.cli.output import add_report_options, emit, timed

SUMMARY = "tell which rank failed first, from the logs of all ranks"
EXAMPLES = """\
examples:
  postmortem logs job-4711.out
  postmortem logs node*.err --world-size 64
  postmortem logs tlogs/ --split by-rank/
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add(
        "logs LOG",
        "logs of one job, of any launcher, also packed (.gz, .zst, .xz); folders, such "
        "as that "
        "of torchrun --log-dir; or - for standard input",
        nargs="+",
    )
    add_world_size(parser)
    add(
        "--split DIR",
        "also write the clean lines of each rank to a file of its own in DIR, which must be "
        "new, empty, or from an earlier --split (default: none)",
    )
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Explain the logs and write the report."""
    collects = gc.isenabled()
    gc.disable()  # of 65,536 ranks, a quarter of the time goes into looking through facts that stay
    try:
        return _explain(args)
    finally:
        if collects:
            gc.enable()


def _explain(args: argparse.Namespace) -> int:
    from postmortem.analyses.ranklogs import RankLogOptions, analyse
    from postmortem.readers.health.forms import are_health

    began = time.monotonic()
    options = RankLogOptions(
        world_size=args.world_size, verbose=args.verbose, redact=not args.no_redact
    )
    if args.split is not None:
        from postmortem.analyses.ranklogs import analyse_and_split

        report, said = analyse_and_split(args.logs, args.split, options)
        print(f"postmortem: {said}", file=sys.stderr)
    elif are_health(args.logs):  # what a scheduler or a tool tells of nodes, GPUs, file systems
        from postmortem.analyses.health import analyse_files

        report = analyse_files(args.logs)
    else:
        report = analyse(args.logs, options)
    return emit(timed(report, began), args)
