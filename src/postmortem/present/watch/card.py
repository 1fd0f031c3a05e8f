"""What a watch puts on its card where nobody grows: what each process holds, and its change."""

from collections.abc import Iterator

from postmortem.facts.watch import Watched, Watching
from postmortem.present.watch.table import biggest_first
from postmortem.report.card import Highlights
from postmortem.text import counted, size

_MOST_ROWS = 4
_LONG_SECONDS = 600


def watch_highlights(seen: Watching) -> Highlights:
    """Return the largest processes, the limits above them, and how to see more."""
    shown = biggest_first(seen)
    left = len(shown) - _MOST_ROWS
    live = [one.pid for one in shown if not one.ended]
    asked = [pid for pid in seen.asked if pid in live]
    pids = " ".join(map(str, asked or live[:_MOST_ROWS])) if not seen.ended else ""
    return Highlights(
        rows=tuple(_rows(seen, shown[:_MOST_ROWS])),
        rest=counted(left, "more process", "more processes") if left > 0 else None,
        steps=(f"watch longer: postmortem watch {pids} --for {_LONG_SECONDS}",)
        if pids and seen.seconds < _LONG_SECONDS
        else (),
    )


def _rows(seen: Watching, shown: list[Watched]) -> Iterator[tuple[str, str]]:
    for one in shown:
        first, last = one.samples[0], one.samples[-1]
        change = last.held - first.held
        sign = "+" if change >= 0 else "-"
        words = f"{size(last.held)} of its own, {sign}{size(abs(change))}"
        if last.descriptors >= 0 and last.threads >= 0:
            words += (
                f", {counted(last.descriptors, 'open file')}, {counted(last.threads, 'thread')}"
            )
        yield one.label, f"{words}; it has ended" if one.ended else words
    for limit in seen.ceilings[:1]:
        yield limit.name, f"{size(limit.used[-1][1])} of {size(limit.limit_bytes)} in use"
