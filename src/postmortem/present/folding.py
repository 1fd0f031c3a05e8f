"""Which frames of a long stack are shown, and what stands for the others."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence

from postmortem.facts.threads import is_ours, is_own
from postmortem.records import record
from postmortem.text import counted

ENOUGH = 20
"""Lines up to which a stack is shown with all its boilerplate."""
MOST = 44
"""Lines of the default view; what is still longer loses its middle."""
_HEAD, _TAIL = 28, 12
UNNAMED = "frames without a name"
"""Boilerplate only when it stands between frames of start-up."""
_LONGEST_PERIOD = 32
_FEWEST_REPEATS = 4
_FEWEST_HIDDEN = 6
_ALWAYS = frozenset({"CPython's evaluator", "Python's import"})
"""Boilerplate of short stacks too: five frames for each call say nothing that its line does not."""
_FRAME = 'File "'
_MOST_PACKAGES = 3
_NEVER_BOILERPLATE = 3
"""Innermost frames that are always shown: the report is about them."""


@record
class Fold:
    """A line that stands for several frames."""

    first: int
    count: int
    text: str


@record
class _Label:
    """What stands for frames: a text, behind their number where that `counts` them."""

    text: str
    counts: bool = False


@record
class Repeat:
    """Recursion: `count` times the `period` frames from `start` on."""

    start: int
    period: int
    count: int


def folded(
    keys: Sequence[Hashable],
    names: Sequence[str],
    boilerplate: Sequence[str | None],
    *,
    keep: Collection[int] = (),
) -> tuple[int | Fold, ...]:
    """Return what to show of a stack: indices of frames, and folds.

    `keys` say which frames are equal, `boilerplate` what they are part of. Start-up and recursion
    are always folded, and CPython's way from one call to the next; other boilerplate when the
    stack is long, then the middle; never a frame in `keep`.
    """
    labels: list[_Label | None] = [None] * len(keys)
    for repeat in repeats(keys):
        end = repeat.start + repeat.period * repeat.count
        cycle = " -> ".join(reversed(names[repeat.start : repeat.start + min(repeat.period, 4)]))
        more = " -> …" if repeat.period > 4 else ""
        text = (
            f"{counted(repeat.count - 1, 'more repeat')} of "
            f"{counted(repeat.period, 'frame')}: {cycle}{more}"
        )
        label = _Label(text)
        for index in range(repeat.start + repeat.period, end):
            labels[index] = label
    _label_start_up(labels, boilerplate)
    for index in keep:
        labels[index] = None
    short = _lines(labels) <= ENOUGH
    _label_boilerplate(labels, boilerplate, keep, _ALWAYS if short else None)
    shown = tuple(_entries(labels))
    return shown if len(shown) <= MOST else _without_middle(shown, keep)


def repeats(keys: Sequence[Hashable]) -> tuple[Repeat, ...]:
    """Return where a stack repeats itself at least four times, the shortest period first."""
    count = len(keys)
    if count < _FEWEST_REPEATS + _FEWEST_HIDDEN:
        return ()
    # how many frames from i on equal the frame one period further out; frames of a stack that
    # does not recurse have few equals, so most periods end here
    longest = _LONGEST_PERIOD if count < 20_000 else 8
    runs: list[list[int]] = []
    for period in range(1, min(longest, count // _FEWEST_REPEATS) + 1):
        run = [0] * (count + 1)
        for index in range(count - period - 1, -1, -1):
            if keys[index] == keys[index + period]:
                run[index] = run[index + 1] + 1
        runs.append(run)
    found: list[Repeat] = []
    index = 0
    while index < count:
        repeat = _repeat_at(runs, index)
        if repeat is None:
            index += 1
        else:
            found.append(repeat)
            index += repeat.period * repeat.count
    return tuple(found)


def _repeat_at(runs: list[list[int]], index: int) -> Repeat | None:
    for period, run in enumerate(runs, 1):
        count = run[index] // period + 1
        if count >= _FEWEST_REPEATS and (count - 1) * period >= _FEWEST_HIDDEN:
            return Repeat(index, period, count)
    return None


def _label_start_up(labels: list[_Label | None], boilerplate: Sequence[str | None]) -> None:
    kinds: Counter[str] = Counter()
    first = scan = len(labels)
    while scan > 0 and (name := boilerplate[scan - 1]) is not None:
        scan -= 1
        if name.endswith("start-up"):
            first = scan
            kinds[name] += 1
        elif name != UNNAMED:
            break
    if first == 0 or len(labels) - first < 2 or any(labels[first:]):
        return
    label = _Label(f"frames of {kinds.most_common(1)[0][0]}", counts=True)
    labels[first:] = [label] * (len(labels) - first)


def _label_boilerplate(
    labels: list[_Label | None],
    boilerplate: Sequence[str | None],
    keep: Collection[int],
    only: Collection[str] | None,
) -> None:
    start = _NEVER_BOILERPLATE
    while start < len(labels):
        end = start
        name = boilerplate[start]
        while (
            end < len(labels)
            and name not in (None, UNNAMED)
            and (only is None or name in only)
            and boilerplate[end] == name
            and labels[end] is None
            and end not in keep
        ):
            end += 1
        if end - start >= 2:
            labels[start:end] = [_Label(f"frames of {name}", counts=True)] * (end - start)
        start = max(end, start + 1)


def _lines(labels: Sequence[_Label | None]) -> int:
    return sum(1 for _ in _entries(labels))


def _entries(labels: Sequence[_Label | None]) -> Iterator[int | Fold]:
    index = 0
    while index < len(labels):
        label = labels[index]
        if label is None:
            yield index
            index += 1
            continue
        end = index
        while end < len(labels) and labels[end] == label:
            end += 1
        count = f"{end - index:,} " if label.counts else ""
        yield Fold(index, end - index, count + label.text)
        index = end


def _without_middle(shown: tuple[int | Fold, ...], keep: Collection[int]) -> tuple[int | Fold, ...]:
    head, middle, tail = shown[:_HEAD], shown[_HEAD:-_TAIL], shown[-_TAIL:]
    kept: list[int | Fold] = []
    for entry in middle:
        if isinstance(entry, int) and entry in keep:
            kept.append(entry)
            continue
        first, count = (entry, 1) if isinstance(entry, int) else (entry.first, entry.count)
        last = kept[-1] if kept else None
        if isinstance(last, Fold):
            kept[-1] = Fold(last.first, last.count + count, "")
        else:
            kept.append(Fold(first, count, ""))
    named = (
        Fold(e.first, e.count, f"{counted(e.count, 'more frame')} (-v shows all)")
        if isinstance(e, Fold)
        else e
        for e in kept
    )
    return (*head, *named, *tail)


def folded_traceback(lines: Sequence[str]) -> list[str]:
    """Return the lines of a traceback of Python, with one for each run of frames of libraries.

    The innermost frame stays, whosever it is but ours: of those none does.
    """
    found: list[str] = []
    folded: Counter[str] = Counter()
    frames = _frames_of(lines)
    last = next((n for n in reversed(range(len(frames))) if frames[n][0] is not None), -1)
    for number, (file, rows) in enumerate(frames):
        if file is not None and is_ours(file):
            continue
        if file is not None and number != last and not is_own(file):
            folded[_package(file)] += 1
            continue
        found += _told(folded, rows[0])
        found += rows
    return found


def _told(folded: Counter[str], below: str) -> list[str]:
    """Return the line that stands for the frames so far, and forget them."""
    if not folded:
        return []
    said = f"… {counted(folded.total(), 'frame')} in {', '.join([*folded][:_MOST_PACKAGES])}"
    folded.clear()
    indent = len(below) - len(below.lstrip()) or 2
    return [" " * indent + said]


def _frames_of(lines: Sequence[str]) -> list[tuple[str | None, list[str]]]:
    """Return the lines in parts: each frame with its file, and each other line."""
    parts: list[tuple[str | None, list[str]]] = []
    inside = -1
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith(_FRAME):
            inside = indent
            parts.append((line.lstrip().removeprefix(_FRAME).partition('"')[0], [line]))
        elif 0 <= inside < indent:
            parts[-1][1].append(line)
        else:
            inside = -1
            parts.append((None, [line]))
    return parts


def _package(file: str) -> str:
    """Return ``torch`` of a file in site-packages, ``logging`` of one of Python's own."""
    for mark in ("site-packages/", "dist-packages/"):
        if mark in file:
            return file.rpartition(mark)[2].partition("/")[0].removesuffix(".py")
    _, _, rest = file.rpartition("/lib/python3")
    return rest.partition("/")[2].partition("/")[0].removesuffix(".py") or file
