"""``postmortem flight FILE...``: the last frames of a process that is gone."""

import argparse
import sys
from datetime import UTC, datetime

from postmortem.diagnose.numerics.first_bad import FirstBad
from postmortem.diagnose.numerics.flight_verdict import find_first_bad
from postmortem.diagnose.numerics.near_edge import near_the_edge
from postmortem.errors import EvidenceError
from postmortem.facts.frames import Flight, Frame
from postmortem.facts.source import Problem, Source
from postmortem.readers.flight import read_flight
from postmortem.records import replace
from postmortem.render import safe
from postmortem.report.frame_text import HEADER, dump, frame_text
from postmortem.report.model import Report
from postmortem.report.redact import Redactor

_MOST_LINES = 100_000
_ENDED = {
    "finished": "the run was left in order",
    "stopped": "the monitor stopped the run",
    "failed": "the run was left by an exception",
    None: "the process ended while it was being watched (killed, crashed), or still runs",
}


def main(arguments: list[str] | None = None) -> int:
    """Print the reports of flight files, as ``postmortem flight`` does."""
    parser = argparse.ArgumentParser(
        prog="python -m postmortem.monitor.flight", description=__doc__
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--frames", type=int, default=21, help="how many frames (default: 21)")
    parser.add_argument("--json", action="store_true", help="write JSON (default: text)")
    options = parser.parse_args(arguments)
    return show(options.files, frames=options.frames, json=options.json)


def show(files: list[str], *, frames: int, json: bool = False, redact: bool = True) -> int:
    """Print the reports of flight files; return 1 if numbers are bad in any, 3 if one is none."""
    redactor = Redactor() if redact else None
    if json:
        return _json(files, max(1, frames), redactor)
    status = 0
    for path in files:
        try:
            flight, problems = read_flight(path)
        except EvidenceError as error:
            _refuse(error, redactor)
            status = 3
            continue
        found = find_first_bad(flight)
        text = report(flight, found, problems, max(1, frames))
        if redactor is not None:
            text = redactor.text(text)
        sys.stdout.write(safe.block(text, lines=_MOST_LINES) + "\n")
        status = max(status, 1 if found is not None else 0)
    return status


def report(
    flight: Flight, found: FirstBad | None, problems: tuple[Problem, ...], frames: int
) -> str:
    """Return the report of one flight file as text."""
    lines = _heading(flight)
    if found is not None:
        lines += [
            dump(_last(flight, found, frames), found.batch),
            "",
            f"first bad: {found.sentence(flight.recorder.world_size)}",
        ]
        lines.append(f"  {found.confidence}")
        lines += [f"  {hint}" for hint in found.hints]
    else:
        last = _last(flight, None, frames)
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


def _last(flight: Flight, found: FirstBad | None, frames: int) -> list[Frame]:
    """Return the last frames, or those that led to what went bad."""
    until = [f for f in flight.frames if found is None or f.number <= found.frame]
    return until[-frames:]


def _json(paths: list[str], frames: int, redactor: Redactor | None) -> int:
    """Write one report on all files; what cannot be read of them stands under `problems`."""
    from postmortem.present.numerics.body import flight_row, frame_rows
    from postmortem.render import json

    rows: list[dict[str, object]] = []
    sources: list[Source] = []
    problems: list[Problem] = []
    bad: list[FirstBad] = []
    refused: list[EvidenceError] = []
    ranks = 1
    for path in paths:
        try:
            flight, wrong = read_flight(path)
        except EvidenceError as error:
            refused.append(error)
            continue
        found = find_first_bad(flight)
        last = _last(flight, found, frames)
        rows.append({**flight_row(flight, found), "frames": frame_rows(last)})
        sources.append(Source(path, flight.size_bytes))
        problems += wrong
        bad += [found] if found is not None else []
        ranks = max(ranks, flight.recorder.world_size)
    if not rows:
        for one in refused:
            _refuse(one, redactor)
        return 3
    problems += [Problem(one.where, one.what, one.hint) for one in refused]
    first = min(bad, key=lambda found: (found.batch, found.frame), default=None)
    verdict = first.sentence(ranks) if first else "no NaN or Inf among the frames that are left"
    report = Report("flight", tuple(sources), verdict, bool(bad), (), (), {"flights": rows})
    report = replace(report, problems=tuple(problems))
    json.render(report if redactor is None else redactor.report(report), sys.stdout)
    return 1 if bad else 0


def _refuse(error: EvidenceError, redactor: Redactor | None) -> None:
    words = str(error) if redactor is None else redactor.text(str(error))
    sys.stderr.write(f"postmortem: {safe.line(words)}\n")
    if error.hint:
        sys.stderr.write(f"hint: {error.hint}\n")


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "at an unknown time"


if __name__ == "__main__":
    sys.exit(main())
