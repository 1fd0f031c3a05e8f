"""One table of all processes, with a line of little bars for how each has grown."""

from collections.abc import Iterable, Sequence

from postmortem.facts.watch import Watched, Watching
from postmortem.text import size

_BARS = "▁▂▃▄▅▆▇█"
_BAR = 16
"""Values that are drawn."""
COLUMNS = (*"process own shared rss pss locked gpu fds threads".split(), "over time", "")


def sparkline(values: Sequence[float]) -> str:
    """Return values as bars from the least to the largest of them."""
    if not values:
        return ""
    count = len(values)
    picked = [values[min(count - 1, i * count // _BAR)] for i in range(min(_BAR, count))]
    picked[-1] = values[-1]
    low, high = min(picked), max(picked)
    if high - low < max(1.0, 0.01 * high):
        return _BARS[0] * len(picked)
    return "".join(_BARS[int((value - low) / (high - low) * 7.999)] for value in picked)


def biggest_first(seen: Watching) -> list[Watched]:
    """Return those that live, the one that holds most first, then those that have ended."""
    return sorted(seen.processes, key=lambda one: (one.ended, -one.samples[-1].held))


def row(one: Watched) -> tuple[str, ...]:
    """Return the cells of a process."""
    last = one.samples[-1]
    return (
        one.label,
        size(last.anonymous_bytes),
        size(last.shared_bytes),
        size(last.rss_bytes),
        size(last.pss_bytes) if last.pss_bytes >= 0 else "–",
        size(last.locked_bytes) if last.locked_bytes else "–",
        size(last.gpu_bytes) if last.gpu_bytes >= 0 else "–",
        str(last.descriptors) if last.descriptors >= 0 else "–",
        str(last.threads),
        sparkline([float(sample.held) for sample in one.samples]),
        ("ended; " if one.ended else "") + one.command,
    )


def lines(seen: Watching, width: int, height: int) -> list[str]:
    """Return the table as lines no longer than the terminal is wide."""
    shown = biggest_first(seen)
    rows = [COLUMNS, *(row(one) for one in shown[: max(1, height - 4)])]
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(COLUMNS) - 1)]
    text = [_line(cells, widths)[:width] for cells in rows]
    if len(shown) > height - 4:
        text.append(f"and {len(shown) - (height - 4)} more")
    for ceiling in seen.ceilings[:1]:
        used = ceiling.used[-1][1]
        share = used / ceiling.limit_bytes if ceiling.limit_bytes else 0
        bars = sparkline([float(value) for _, value in ceiling.used])
        words = f"{ceiling.name}: {size(used)} of {size(ceiling.limit_bytes)} ({share:.0%}) {bars}"
        text.append(words[:width])
    return text


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    parts = []
    for number, cell in enumerate(cells):
        if number >= len(widths):
            parts.append(cell)
        elif number in (0, 9):
            parts.append(cell.ljust(widths[number]))
        else:
            parts.append(cell.rjust(widths[number]))
    return "  ".join(parts).rstrip()
