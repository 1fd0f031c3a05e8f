"""The lines of a writer around one of them, of what was kept: no file is read again for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from postmortem.facts.last_lines import LogExcerpt
from postmortem.readers.ranklogs.lines import Shape, shape_of
from postmortem.readers.signatures import Signatures

if TYPE_CHECKING:
    from postmortem._native import RawRankLog
    from postmortem.readers.ranklogs.build_facts import ReadLog

_MOST = 4
"""Lines before the one that counts, and behind it."""
_LAUNCHERS_OWN = "last-launcher"


def lines_around(read: Iterable[ReadLog], where: str) -> LogExcerpt | None:
    """Return the line at ``FILE:LINE`` with those that its writer wrote around it.

    None where none was kept, and where several files have that name. Of a launcher's own lines only
    the one that is meant: they say in many lines what it says.
    """
    name, _, number = where.rpartition(":")
    logs = [one for one in read if f"/{one.file.path}".endswith(f"/{name}")]
    if len(logs) != 1 or not number.isdecimal():
        return None
    line, kept = int(number), _kept(logs[0].raw, int(number))
    known = Signatures.load("last line").matches(kept.values())
    rows = [
        row
        for row, found in zip(kept.items(), known, strict=True)
        if row[0] == line or (_says(row) and all(m.id != _LAUNCHERS_OWN for m in found))
    ]
    if not rows:
        return None
    at = [number for number, _ in rows].index(line)
    return LogExcerpt(logs[0].file.path, line, tuple(rows[max(at - _MOST, 0) : at + _MOST + 1]))


def _says(row: tuple[int, str]) -> bool:
    return shape_of(row[0], 0, row[1]).shape not in (Shape.BLANK, Shape.CARET, Shape.HEAD)


def _kept(raw: RawRankLog, line: int) -> dict[int, str]:
    """Return what was kept of the writer of a line, next to it, by number."""
    tails = [
        (writer, {row[0]: row[1] for row in label["tail"]})
        for writer, label in enumerate(raw["labels"])
        if label["first_line"] <= line <= label["last_line"]
    ]
    regions = [
        (region[0], {row[0]: row[2] for row in region[3]})
        for region in raw["regions"]
        if region[3][0][0] <= line <= region[3][-1][0]
    ]
    found = [(writer, rows) for writer, rows in (*tails, *regions) if line in rows]
    joined = {n: text for one, rows in found if one == found[0][0] for n, text in rows.items()}
    return dict(sorted(joined.items()))
