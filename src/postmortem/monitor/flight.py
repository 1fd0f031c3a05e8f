"""``python -m postmortem.monitor.flight FILE...``: the last frames of a process that is gone."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime

from postmortem.errors import EvidenceError
from postmortem.facts.first_bad import FirstBad, find_first_bad, near_the_edge
from postmortem.facts.frames import Flight, Frame
from postmortem.facts.source import Problem
from postmortem.readers.flight import read_flight
from postmortem.render import safe
from postmortem.report.frame_text import HEADER, dump, frame_text

_MOST_LINES = 100_000
_ENDED = {
    "finished": "the run was left in order",
    "stopped": "the monitor stopped the run",
    "failed": "the run was left by an exception",
    None: "the process ended while it was being watched (killed, crashed), or still runs",
}


def main(arguments: list[str] | None = None) -> int:
    """Print the reports of flight files; return 1 if numbers are bad in any, 3 if one is none."""
    parser = argparse.ArgumentParser(
        prog="python -m postmortem.monitor.flight", description=__doc__
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--frames", type=int, default=21, help="how many frames (default: 21)")
    options = parser.parse_args(arguments)
    status = 0
    for path in options.files:
        try:
            flight, problems = read_flight(path)
        except EvidenceError as error:
            sys.stderr.write(f"{safe.line(str(error))}\n")
            if error.hint:
                sys.stderr.write(f"hint: {error.hint}\n")
            status = 3
            continue
        found = find_first_bad(flight)
        text = report(flight, found, problems, max(1, options.frames))
        sys.stdout.write(safe.block(text, lines=_MOST_LINES) + "\n")
        status = max(status, 1 if found is not None else 0)
    return status


def report(
    flight: Flight, found: FirstBad | None, problems: tuple[Problem, ...], frames: int
) -> str:
    """Return the report of one flight file as text."""
    lines = _heading(flight)
    if found is not None:
        until = [f for f in flight.frames if f.number <= found.frame][-frames:]
        lines += [dump(until, found.batch), "", f"first bad: {_said(found, flight)}"]
        lines.append(f"  {found.confidence}")
        lines += [f"  {hint}" for hint in found.hints]
    else:
        last = _last(flight, frames)
        lines += [f"\nLast {len(last)} frames:", HEADER, *map(frame_text, last)]
        lines += ["", "no NaN or Inf among the frames that are left"]
        lines += [f"  {said}" for said in near_the_edge(last)]
    lines += [f"not read: {problem.where}: {problem.what}" for problem in problems]
    return "\n".join(lines)


def _heading(flight: Flight) -> list[str]:
    who = flight.recorder
    rank = f"rank {who.rank} of {who.world_size}, " if who.world_size > 1 else ""
    lines = [f"{flight.path}: {rank}pid {who.pid} on {who.host}, started {_time(who.started)}"]
    batch = "" if who.batch is None else f", in or after batch {who.batch}"
    lines.append(f"{_ENDED.get(who.ended, _ENDED[None])}{batch}")
    kept = len(flight.frames)
    lines.append(f"{flight.records:,} tensors were recorded, the last {kept:,} frames are here")
    return lines


def _said(found: FirstBad, flight: Flight) -> str:
    return found.sentence(flight.recorder.world_size)


def _last(flight: Flight, frames: int) -> list[Frame]:
    return list(flight.frames[-frames:])


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "at an unknown time"


if __name__ == "__main__":
    sys.exit(main())
