"""``postmortem hang``: which rank of a live job holds up the others, and in what."""

from __future__ import annotations

import argparse
import sys
import time

from postmortem.cli.arguments import adding, interruptible, pid, seconds, signal_number, whole
from postmortem.cli.output import add_report_options, emit, timed
from postmortem.cli.progress import Status

SUMMARY = "tell which rank of a live job is stuck, and what it waits for"
EXAMPLES = """\
examples:
  postmortem hang 4711
  postmortem hang $(pgrep -f train.py)
  postmortem hang --job 815302 --gap 60
  postmortem hang --watch --job 815302 && echo it ended by itself
  postmortem hang --job 815302 --json -o hang-$(hostname).json

A pid stands for itself and for all that it started: that of torchrun is enough. Each process is
stopped for a fraction of a second while it is read, and always let go; --no-stop reads it as it
runs. Put the JSON of several nodes into one folder for postmortem logs.
"""
INTERRUPTED = "no process was left stopped"
"""What is said where Ctrl-C ends it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add(
        "pids PID",
        "processes of the job on this node; what they started belongs to them",
        nargs="*",
        type=pid,
    )
    add(
        "--job NAME",
        "all processes of a job on this node: the id or name that SLURM, PBS, LSF or Flux "
        "gave it, torchrun's --rdzv-id, or else a part of their command lines (default: none)",
        type=_name,
    )
    add(
        "--samples N",
        "how often to look: two tell stuck from slow (default: 2)",
        type=whole(1, 100),
        default=2,
    )
    add("--gap S", "seconds between two looks (default: 1)", type=seconds, default=1.0)
    add(
        "--looks N",
        "how often to look at a process that computes while the others wait, or is the only "
        "one: what the looks have in common is where its time goes (default: 12; 0: not at all)",
        type=whole(0, 1000),
        default=12,
    )
    add(
        "--watch S",
        "look every S seconds (60) until somebody is stuck for as long, and report that, or "
        "until the job has ended (default: look now)",
        nargs="?",
        const=60.0,
        type=seconds,
    )
    _add_ways(parser)
    add_report_options(parser)


def _add_ways(parser: argparse.ArgumentParser) -> None:
    in_group = adding(parser.add_argument_group("how processes are read"))
    in_group(
        "--engine",
        "whose stacks to take; proc takes none (default: auto, the first of native, py-spy "
        "and gdb that works)",
        choices=("auto", "native", "py-spy", "gdb", "proc"),
        default="auto",
    )
    in_group(
        "--no-stop",
        "stop nothing: threads that run have Python frames alone (default: stop each process "
        "while it is read)",
    )
    in_group(
        "--signal NAME",
        "where no stack can be read, have faulthandler print them by this signal, which the "
        "program must have registered (default: no signal is ever sent)",
        type=signal_number,
    )
    in_group(
        "--deadline S",
        "seconds that the reading of one process may take (default: 20)",
        type=seconds,
        default=20.0,
    )
    in_group("--gdb PATH", "gdb to use (default: the one on PATH)")


def run(args: argparse.Namespace) -> int:
    """Read the processes and write the report."""
    from postmortem.analyses.hang import analyse, until_stuck
    from postmortem.analyses.live_job import HangOptions
    from postmortem.readers.live.snapshot import ReadOptions

    if bool(args.pids) == (args.job is not None):
        args.parser.error("give either PIDs or --job NAME")
    began = time.monotonic()
    options = HangOptions(
        pids=tuple(args.pids),
        job=args.job,
        reading=ReadOptions(
            engine=args.engine,
            stop=not args.no_stop,
            deadline_seconds=args.deadline,
            signal=args.signal,
            gdb=args.gdb,
        ),
        samples=args.samples,
        gap_seconds=args.gap,
        looks=args.looks,
        verbose=args.verbose,
        redact=not args.no_redact,
    )
    with interruptible(), Status() as status:
        progress = status if sys.stderr.isatty() and not args.quiet else None
        if args.watch is None:
            report = analyse(options, progress)
        else:
            report = until_stuck(options, args.watch, progress)
    return emit(timed(report, began), args)


def _name(text: str) -> str:
    if not text.strip():  # as of an unset variable; it is part of every command line
        raise argparse.ArgumentTypeError("the name of the job is empty")
    return text.strip()
