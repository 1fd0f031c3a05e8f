"""``postmortem watch``: memory, descriptors and threads of a tree of processes over time."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from postmortem.cli.arguments import adding, interruptible, pid, seconds, whole
from postmortem.cli.output import add_report_options, emit
from postmortem.text import counted

if TYPE_CHECKING:
    from postmortem.report.model import Report
    from postmortem.watch.loop import Watch

SUMMARY = "watch memory, descriptors and threads of a job over time, and say who grows"
EXAMPLES = """\
examples:
  postmortem watch 4711
  postmortem watch --job 815302 --ring /scratch/$(hostname).ring
  postmortem watch 4711 --for 600 --json -o watch.json
  postmortem watch --read /scratch/node3.ring
  postmortem watch --read snapshot_rank*.pickle

A pid stands for itself and for all that it starts. Ctrl-C ends the watch and writes the report. The
ring file can be read after the watch, or the node, was killed.
"""

_PLAIN_SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = adding(parser)
    add("pids PID", "processes, with all that they start", nargs="*", type=pid)
    add("--job NAME", "all processes of a job here, as for postmortem hang")
    add(
        "--interval S",
        "seconds between two looks; more where a look would cost 0.4 %% of one core (default: 1)",
        type=seconds,
        default=1.0,
    )
    add(
        "--for S",
        "end after this many seconds (default: when the last process has ended)",
        dest="seconds",
        type=seconds,
    )
    add("--ring FILE", "keep the newest looks in FILE (default: none)")
    add(
        "--ring-size MIB",
        "size of that file (default: 16, which is 30 min of 64 processes)",
        type=whole(1, 1 << 16, "a number of MiB"),
        default=16,
    )
    add(
        "--no-lines",
        "do not look at Python stacks of processes that grow (default: look now and then)",
    )
    add(
        "--read FILE",
        "explain a ring file, or snapshots of PyTorch's GPU memory (one or those of several "
        "ranks), and watch nothing",
        nargs="+",
    )
    add_report_options(parser)


def run(args: argparse.Namespace) -> int:
    """Watch, or read a ring, and write the report."""
    from postmortem.analyses.watch import report_on

    if (bool(args.pids) + (args.job is not None) + (args.read is not None)) != 1:
        args.parser.error("give PIDs, --job NAME or --read FILE")
    if args.read is not None:
        return emit(_read(args), args)
    from postmortem import underway
    from postmortem.watch.loop import Watch
    from postmortem.watch.loop import run as watch_them

    underway.claim_output()  # its lines are read while it watches

    watch = Watch(
        args.pids, args.job, args.interval, args.ring, args.ring_size << 20, lines=not args.no_lines
    )
    show = _Screen() if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else _Lines()
    began = time.process_time()
    try:
        with interruptible():
            watch_them(watch, args.seconds, show)
    except KeyboardInterrupt:  # sent to our process group it comes twice, once passed on
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    finally:
        cost = time.process_time() - began
        watch.close()
        show.close()
    seen = watch.seen()
    notes = [watch.gpus.why_not] if watch.gpus.why_not else []
    if watch.left_out:
        notes.append(counted(len(watch.left_out), "more process", "more processes"))
    share = 100 * cost / max(seen.seconds, 0.001)
    footer = f"{seen.seconds:.0f} s watched, for {share:.2f} % of one core"
    return emit(report_on(seen, tuple(watch.problems), tuple(notes), (footer,)), args)


def _read(args: argparse.Namespace) -> Report:
    from postmortem.readers.memory_snapshot import is_snapshot

    if any(map(is_snapshot, args.read)):
        from postmortem.analyses import gpu_memory

        return gpu_memory.analyse(args.read, verbose=args.verbose, redact=not args.no_redact)
    if len(args.read) > 1:
        args.parser.error("--read takes one ring file; several only of PyTorch's memory snapshots")
    from postmortem.analyses.watch import of_ring

    return of_ring(args.read[0])


class _Screen:
    """The table, drawn again in its place on standard error."""

    def __init__(self) -> None:
        self._drawn = 0

    def __call__(self, watch: Watch) -> None:
        from postmortem.present.watch.table import lines
        from postmortem.render.safe import line

        try:
            size = os.get_terminal_size(2)
        except OSError:
            return
        text = [line(row) for row in lines(watch.seen(), size.columns - 1, size.lines - 1)]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        sys.stderr.write(up + "".join(f"\r{row}\x1b[K\n" for row in text) + "\x1b[J")
        sys.stderr.flush()
        self._drawn = len(text)

    def close(self) -> None:
        """Take the table away: the report has it."""
        if self._drawn:
            sys.stderr.write(f"\x1b[{self._drawn}A\r\x1b[J")
            sys.stderr.flush()


class _Lines:
    """A line now and then, for logs."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, watch: Watch) -> None:
        from postmortem.render.safe import line
        from postmortem.text import counted, size

        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PLAIN_SECONDS
        last = watch.latest()
        total = sum(sample.held for _, sample in last)
        words = f"{counted(len(last), 'process', 'processes')}, {size(total)} of "
        words += "its own" if len(last) == 1 else "their own"
        if len(last) > 1:
            label, sample = max(last, key=lambda pair: pair[1].held)
            words += f"; {label} most: {size(sample.held)}"
        print(line(f"{time.strftime('%H:%M:%S')} {words}"), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing is left to take away."""
