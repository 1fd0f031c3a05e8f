"""What a Jupyter notebook printed: its outputs as lines of a log, near the lines of the file.

The file stays what is cited: each line of an output stands on the line of the notebook that holds
it, or shortly behind it where one line of JSON holds several.
"""

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from postmortem.facts.last_lines import FailedCell
from postmortem.patterns import Pattern
from postmortem.readers.json_values import whole
from postmortem.records import record

MOST_BYTES = 64 << 20
_BEGINS = Pattern(r"^\s*\{")
_CELLS = Pattern(r'"cells"\s*:\s*\[')
_TYPES = Pattern(r'"cell_type"\s*:')
_ARRAY = Pattern(r'^"(?P<key>text|traceback|source|text/plain|[\w.+-]+/[\w.+-]+)": \[$')
_NEXT_CELL = '"cell_type":'
_NAME = Pattern(r"'(?P<name>[^\W\d]\w*)'")
_LACKS = "NameError"
_ESCAPES = Pattern(r"\x1b\[[0-9;?]*[A-Za-z]")
_HEADER = Pattern(r"^[\w.]+ +Traceback \(")
_HEAD = "Traceback (most recent call last):"
_RULE = Pattern(r"^-+$")
_SKIPPED = Pattern(r"^\s*\[\.\.\. ")
# IPython writes where a frame is in one of these forms, by its version.
_CELL = Pattern(
    r"^(?:Cell|Input) In ?\[(?P<cell>\d{1,18})\], "
    r"(?:line (?P<line>\d{1,18})(?:, in (?P<name>[^(]+))?"
    r"|in <cell line: (?P<first>\d{1,18})>)"
)
_FILE = Pattern(r"^File (?P<file>\S.*?):(?P<line>\d{1,18}), in (?P<name>[^(]+)")
_OLD = Pattern(
    r"^(?:<ipython-input-(?P<cell>\d{1,18})-\w+>|(?P<file>[~/]\S*)) in (?P<name>[^(\s]+)"
)
_ARROW = Pattern(r"(?m)^-+> ?(?P<line>\d{1,18}) ")


@record
class _Cell:
    count: int
    error: str
    """The exception that ended it; empty where none did."""
    lacks: str = ""
    """The name that it used and that nothing had defined, if that is its exception."""
    source: str = ""


def is_notebook(head: bytes) -> bool:
    """Return whether a file begins as a notebook does."""
    text = head.decode("utf-8", "replace")
    return bool(_BEGINS.match(text) and _CELLS.search(text) and _TYPES.search(text))


def outputs_of(data: bytes) -> tuple[bytes, tuple[FailedCell, ...], str] | None:
    """Return what the cells printed, which failed before others ran, and which error is an effect.

    None where the file is no whole notebook. Cells run in the order that the user chose: where the
    one that ran last failed, nothing of what stands below it came later, and it is left out; so are
    errors of cells after which others ran, but of one that failed before it defined what the last
    one lacks: then the last one's is. A cell without a number ran in its place. A number that
    two cells have says that the kernel was started again in between; then numbers order nothing,
    and cells ran as they stand.
    """
    try:
        notebook = json.loads(data)
        cells = _cells(notebook)
        filled = _filled(notebook)
    except (ValueError, RecursionError, TypeError, AttributeError):
        return None
    shown = [cell.count for cell in cells]
    counts = [count for count in shown if count]
    if len({*counts}) < len(counts):
        cells = [
            _Cell(place if cell.count else 0, cell.error) for place, cell in enumerate(cells, 1)
        ]
    last = max(cells, key=lambda cell: cell.count, default=None)
    began = _not_defined_by(cells, last) if last is not None and last.lacks else None
    until = cells.index(last) if last is not None and last.error and last.count else len(cells)
    behind = len(cells) if last is None else cells.index(last)
    survived = {
        i
        for i, cell in enumerate(cells)
        if last is not None and cell.count < last.count and (cell.count or i < behind)
    }
    left_out = survived
    if began is not None and last is not None:
        survived.discard(cells.index(began))
        left_out = survived | {cells.index(last)}
    lines = data.decode("utf-8", "replace").split("\n")
    begun = sum(line.strip().startswith(_NEXT_CELL) for line in lines)
    if begun < len(cells) or filled:  # or written without line breaks
        lines = json.dumps(notebook, indent=1).split("\n")
    text = "\n".join(_spread(lines, until, left_out)).rstrip("\n") + "\n"
    effect = last.error if last is not None and began is not None else ""
    failed = (i for i in sorted(survived, key=lambda i: cells[i].count) if cells[i].error)
    told = tuple(FailedCell(shown[i], cells[i].error) for i in failed)
    return text.encode("utf-8", "replace"), told, effect


def _cells(notebook: dict[str, object]) -> list[_Cell]:
    cells = notebook["cells"]
    if not isinstance(cells, list):
        raise TypeError
    return [_cell(cell) for cell in cells]


def _filled(notebook: dict[str, Any]) -> bool:
    """Have each output a list of lines, and each error a traceback; whether any had none.

    An error without a name is what an editor says of a kernel that does not run, in words.
    """
    changed = False
    for one in (output for cell in notebook["cells"] for output in cell.get("outputs", ())):
        if isinstance(one.get("text"), str):
            one["text"], changed = one["text"].splitlines(keepends=True), True
        if one.get("output_type") == "error" and not (one.get("traceback") and one.get("ename")):
            one["traceback"], changed = [_said(one)], True
    return changed


def _cell(cell: dict[str, Any]) -> _Cell:
    count, source = whole(cell.get("execution_count")) or 0, "".join(cell.get("source") or ())
    for one in cell.get("outputs", ()):
        if one.get("output_type") == "error":
            name = _NAME.search(str(one.get("evalue"))) if one.get("ename") == _LACKS else None
            return _Cell(count, _said(one), name["name"] if name else "", source)
    return _Cell(count, "", source=source)


def _not_defined_by(cells: list[_Cell], last: _Cell) -> _Cell | None:
    """Return the cell that failed before it defined a name which the last one lacks."""
    sets = re.compile(rf"(?m)^[ \t]*(?:\w+, *)*{re.escape(last.lacks)}(?:, *\w+)* *=[^=]")
    found = [c for c in cells if 0 < c.count < last.count and sets.search(c.source)]
    newest = max(found, key=lambda cell: cell.count, default=None)
    return newest if newest is not None and newest.error else None


def _said(error: dict[str, Any]) -> str:
    name, value = str(error.get("ename") or "error"), str(error.get("evalue") or "")
    if not value and not error.get("ename"):
        value = _ESCAPES.sub("", "".join(map(str, error.get("traceback") or ()))).strip()
    value = value.partition("\n")[0].rstrip()
    return f"{name}: {value}" if value else name


def _spread(lines: list[str], until: int, survived: set[int]) -> Iterator[str]:
    """Yield a line for each line of the notebook: what it prints, or nothing."""
    waiting: deque[str] = deque()
    for printed in _printed(lines, until, survived):
        waiting += printed
        yield waiting.popleft() if waiting else ""
    yield from waiting


def _printed(lines: list[str], until: int, survived: set[int]) -> Iterator[list[str]]:
    """Yield, for each line of the notebook, the lines of an output that it holds."""
    cell, key = -1, ""
    for line in lines:
        bare = line.strip()
        if not key:
            cell += bare.startswith(_NEXT_CELL)
            found = _ARRAY.match(bare)
            key = found["key"] if found else ""
            yield []
        elif bare.startswith("]"):
            key = ""
            yield []
        elif key == "traceback" and cell in survived:
            yield []
        elif key in ("text", "traceback") and cell <= until:
            text = _string(bare)
            yield _of_traceback(text) if key == "traceback" else text.rstrip("\n").split("\n")
        else:
            yield []


def _string(bare: str) -> str:
    try:
        value = json.loads(bare.rstrip(","))
    except ValueError:
        return ""
    return _ESCAPES.sub("", value) if isinstance(value, str) else ""


def _of_traceback(text: str) -> list[str]:
    """Return one part of IPython's traceback as Python would print it."""
    first = text.lstrip("\n").split("\n", 1)[0].rstrip()
    if not first or _RULE.match(first) or _SKIPPED.match(first):
        return []
    if _HEADER.match(first):
        return [_HEAD]
    cell, file, old = _CELL.match(first), _FILE.match(first), _OLD.match(first)
    found = cell or file or old
    if found is None:
        return [line.rstrip() for line in text.strip("\n").split("\n")]
    groups = found.groupdict()
    arrow = _ARROW.search(text)
    line = groups.get("line") or (arrow["line"] if arrow else groups.get("first") or "1")
    where = f"<cell {groups['cell']}>" if groups.get("cell") else groups["file"]
    name = (groups.get("name") or "<module>").strip()
    return [f'  File "{where}", line {line}, in {name}']
