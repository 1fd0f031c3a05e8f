"""``postmortem hang``: which rank of a live job holds up the others, and in what."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from typing import TYPE_CHECKING

from postmortem.cli.output import add_report_options, emit
from postmortem.cli.progress import Status

if TYPE_CHECKING:
    from types import FrameType

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "pids",
        metavar="PID",
        nargs="*",
        type=_pid,
        help="processes of the job on this node; what they started belongs to them",
    )
    parser.add_argument(
        "--job",
        metavar="NAME",
        type=_name,
        help="all processes of a job on this node: the id or name that SLURM, PBS, LSF or Flux "
        "gave it, torchrun's --rdzv-id, or else a part of their command lines (default: none)",
    )
    parser.add_argument(
        "--samples",
        type=_count,
        default=2,
        metavar="N",
        help="how often to look: two tell stuck from slow (default: 2)",
    )
    parser.add_argument(
        "--gap",
        type=_seconds,
        default=1.0,
        metavar="S",
        help="seconds between two looks (default: 1)",
    )
    parser.add_argument(
        "--looks",
        type=_looks,
        default=12,
        metavar="N",
        help="how often to look at a process that computes while the others wait, or is the only "
        "one: what the looks have in common is where its time goes (default: 12; 0: not at all)",
    )
    parser.add_argument(
        "--watch",
        nargs="?",
        const=60.0,
        type=_seconds,
        metavar="S",
        help="look every S seconds (60) until somebody is stuck for as long, and report that, or "
        "until the job has ended (default: look now)",
    )
    _add_ways(parser)
    add_report_options(parser)


def _add_ways(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how processes are read")
    group.add_argument(
        "--engine",
        choices=("auto", "native", "py-spy", "gdb", "proc"),
        default="auto",
        help="whose stacks to take; proc takes none (default: auto, the first of native, py-spy "
        "and gdb that works)",
    )
    group.add_argument(
        "--no-stop",
        action="store_true",
        help="stop nothing: threads that run have Python frames alone (default: stop each process "
        "while it is read)",
    )
    group.add_argument(
        "--signal",
        metavar="NAME",
        type=_signal,
        help="where no stack can be read, have faulthandler print them by this signal, which the "
        "program must have registered (default: no signal is ever sent)",
    )
    group.add_argument(
        "--deadline",
        type=_seconds,
        default=20.0,
        metavar="S",
        help="seconds that the reading of one process may take (default: 20)",
    )
    group.add_argument("--gdb", metavar="PATH", help="gdb to use (default: the one on PATH)")


def run(args: argparse.Namespace) -> int:
    """Read the processes and write the report."""
    from postmortem.analyses.hang import HangOptions, analyse, until_stuck
    from postmortem.readers.live.snapshot import ReadOptions
    from postmortem.records import replace

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
    # Ends as Ctrl-C does: whatever was started on the way is ended, too.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with Status() as status:
            progress = status if sys.stderr.isatty() and not args.quiet else None
            if args.watch is None:
                report = analyse(options, progress)
            else:
                report = until_stuck(options, args.watch, progress)
    except KeyboardInterrupt:
        print("postmortem: interrupted; no process was left stopped", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    took = time.monotonic() - began
    return emit(replace(report, footer=f"{took:.2f} s · {report.footer}"), args)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _pid(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a process")
    return int(text)


def _name(text: str) -> str:
    if not text.strip():  # as of an unset variable; it is part of every command line
        raise argparse.ArgumentTypeError("the name of the job is empty")
    return text.strip()


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100")
    return int(text)


def _looks(text: str) -> int:
    if not text.isdecimal() or int(text) > 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1000")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def _signal(text: str) -> int:
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    try:
        return signal.Signals[name].value
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a signal") from None
