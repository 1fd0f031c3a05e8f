"""What one node said, as a part that can be merged."""

from collections.abc import Mapping
from typing import Any

from postmortem.errors import EvidenceError
from postmortem.facts.fleet import Crash, Group, Part, Silent, Standing, Trouble, merge
from postmortem.fleet.engines import Said
from postmortem.readers.own_reports import own_report
from postmortem.text import without_numbers

_MOST_FRAMES = 64
_MOST_ROWS = 4096


def part_of(said: Said, kinds: tuple[str, ...]) -> Part:
    """Return what a node said; a report of another kind, or none, makes it silent."""
    if said.status is None and not said.out:
        return _silent(said, "gave no answer in time")
    if not said.out.strip():
        return _silent(said, _why(said))
    try:
        report = own_report(said.out, said.node)
    except MemoryError:
        return _silent(said, "answered with more than there is memory for")
    except EvidenceError:
        if said.status is None:
            return _silent(said, "was cut off in the middle of its answer")
        begin = " ".join(said.out[:60].decode("utf-8", "backslashreplace").split())
        return _silent(said, f"answered rubbish: {begin!r}")
    if report["kind"] not in kinds:
        return _silent(said, f"answered with a report of kind {str(report['kind'])[:20]}")
    try:
        return _part(said.node, report)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return _silent(said, f"answered with a damaged report: {type(error).__name__}: {error}")


def _why(said: Said) -> str:
    # clush puts this before each line, and its own word below them; ours is above its hint.
    label = f"{said.node}: "
    lines = [line.strip().removeprefix(label) for line in said.error.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith((f"clush: {label}", "hint: "))]
    last = (own or lines or [""])[-1][:200]
    if said.status == 124:
        return "did not finish in time"
    if said.status in (126, 127):
        return f"has no postmortem: {last}" if last else "has no postmortem"
    return f"ended with {said.status}: {last}" if last else f"ended with {said.status}, no message"


def _silent(said: Said, why: str) -> Part:
    return Part(silent=(Silent(said.node, why),))


def _part(node: str, report: Mapping[str, Any]) -> Part:
    verdict = _text(report["verdict"], 1000)
    ids = tuple(
        _text(one["id"], 100)
        for one in report["diagnoses"][:16]
        if one.get("role") in ("root", "contributing")
    )
    outcome = _text(report.get("outcome", "unknown"), 20)
    group = Group(outcome, ids, without_numbers(verdict), verdict, (node,))
    stacks = report.get("stacks") or {}
    standing = [_standing(node, one) for one in (stacks.get("classes") or ())[:_MOST_ROWS]]
    crashes = [_crash(node, one) for one in (report.get("signatures") or ())[:_MOST_ROWS]]
    troubles = merge(
        Part(troubles=(_trouble(node, one),)) for one in (report.get("problems") or ())[:_MOST_ROWS]
    )
    return Part((node,), (group,), tuple(standing), tuple(crashes), troubles=troubles.troubles)


def _trouble(node: str, row: Mapping[str, Any]) -> Trouble:
    what = _text(row["what"], 300)
    return Trouble(without_numbers(what), f"{node}: {_text(row['where'], 300)}", what, 1)


def _standing(node: str, row: Mapping[str, Any]) -> Standing:
    ranks = tuple(sorted(rank for rank in row["ranks"] if type(rank) is int and rank >= 0))
    frames = tuple(_frame(one) for one in row["frames"][:_MOST_FRAMES])
    unnumbered = max(0, len(row["labels"]) - len(ranks))
    return Standing(frames, _text(row.get("doing") or "", 300), ranks, (node,), unnumbered)


def _frame(row: Any) -> str:
    if isinstance(row, str):
        return row[:300]
    function = _text(row["function"], 200)
    file, line = row.get("file"), row.get("line")
    name = str(file).rpartition("/")[2][:100] if file else ""
    return f"{function} at {name}:{line}" if name and line else function


def _crash(node: str, row: Mapping[str, Any]) -> Crash:
    ranks = tuple(sorted({rank for rank in row["ranks"] if type(rank) is int}))
    count = row["count"]
    if type(count) is not int or not 0 < count < 1 << 31:
        raise ValueError("a count that is none")
    example = _text(row["newest"], 4096)
    return Crash(
        _text(row["hash"], 64), _text(row["summary"], 500), count, ranks, (node,), (node, example)
    )


def _text(value: object, most: int) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not text")
    return value[:most]
