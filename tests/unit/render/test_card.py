"""The card: never more than 15 lines, never wider than the page, and what it leaves out first."""

import io
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.reports import full_report
from postmortem.present.card import card_of
from postmortem.render.card import MOST_LINES, render
from postmortem.render.wrapping import cells
from postmortem.report.card import Card, Place
from postmortem.report.model import Confidence

PYTHON = Place(
    "Rows.__getitem__",
    "/job/train_seg.py",
    14,
    values=(("i", "333"), ("src", "b'\\xff\\xff\\xff\\x7f'")),
    source=tuple((n, f"    line_{n}(row)") for n in range(12, 17)),
)
NATIVE = Place(
    "decode_row",
    "/job/fastdecode.c",
    9,
    module="libfastdecode.so",
    values=(("w", "-2147483648"), ("n", "64")),
    source=tuple((n, f"        out[k * {n}] = src[k];") for n in range(7, 12)),
)
CARD = Card(
    headline="SIGSEGV in a DataLoader worker of rank 2: decode_row read far before its buffer",
    failed=True,
    places=(PYTHON, NATIVE),
    why="w comes from the row's own header, which nobody checks",
    confidence=Confidence.LIKELY,
    steps=("python -c 'import train_seg; train_seg.Rows()[333]'", "check w before line 9"),
    rest="7 other workers were idle",
    footer=("0.4 s", "native stacks", "-v shows all"),
)


def drawn(card: Card, **options: object) -> str:
    out = io.StringIO()
    render(card, out, **options)  # type: ignore[arg-type]
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_text(width: int, golden: Callable[[str, str], None]) -> None:
    golden(f"card-{width}.txt", drawn(CARD, width=width))


@pytest.mark.parametrize("width", [80, 120])
def test_of_a_report_that_knows_nothing_of_cards(
    width: int, golden: Callable[[str, str], None]
) -> None:
    golden(f"card-of-report-{width}.txt", drawn(card_of(full_report()), width=width))


words = st.text(min_size=0, max_size=400)
places = st.builds(
    Place,
    words,
    st.one_of(st.none(), words),
    st.one_of(st.none(), st.integers(1, 9)),
    st.one_of(st.none(), words),
    st.lists(st.tuples(words, words), max_size=8).map(tuple),
    st.lists(st.tuples(st.integers(1, 9), words), max_size=5, unique_by=lambda r: r[0])
    .map(sorted)
    .map(tuple),
)
cards = st.builds(
    Card,
    words,
    st.booleans(),
    st.lists(places, max_size=3).map(tuple),
    st.lists(st.tuples(words, words), max_size=9).map(tuple),
    words,
    st.one_of(st.none(), st.sampled_from(Confidence)),
    st.lists(words, max_size=3).map(tuple),
    words,
    st.lists(words, max_size=5).map(tuple),
)


def of_a_log(card: Card, near: int) -> Card:
    """Return a card of which some rows only stand around another one."""
    quoted = card.rows[0] if card.rows else None
    return replace(card, near=card.rows[1 : near + 1], quoted=quoted)


@given(card=st.builds(of_a_log, cards, st.integers(0, 5)), width=st.integers(40, 200))
def test_never_more_than_15_lines_nor_wider_than_the_page(card: Card, width: int) -> None:
    lines = drawn(card, width=width).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(cells, lines)) <= width


def test_what_counts_is_on_every_card() -> None:
    for width in (60, 80, 120):
        text = " ".join(drawn(CARD, width=width).split())
        for part in ("train_seg.py:14", "line_14(row)", "fastdecode.c:9", "w = -2147483648"):
            assert part in text
        assert "(likely)" in text


def test_colour_and_links_change_no_text() -> None:
    shown = drawn(CARD, width=80, color=True, links=True)
    assert "\x1b]8;;file:///job/train_seg.py\x1b\\" in shown
    plain = re.sub(r"\x1b\]8;;[^\x1b]*\x1b\\|\x1b\[[0-9;]*m", "", shown)
    assert plain == drawn(CARD, width=80)


def test_no_links_without_being_asked() -> None:
    assert "\x1b" not in drawn(CARD, width=80)


def test_a_hostile_path_ends_no_link() -> None:
    evil = replace(PYTHON, file="/job/\x1b\\\x07a b.py")
    shown = drawn(replace(CARD, places=(evil,)), width=80, links=True)
    assert shown.count("\x1b]8;;") == 2
    assert "\x07" not in shown


ROWS = (
    ("job.log:7", "connecting to node3"),
    ("job.log:8", "store: no answer from node3, port 29500, 12 tries in all"),
    ("job.log:9", "gave up"),
)


def test_of_a_line_that_the_headline_cuts_the_rest_is_drawn() -> None:
    card = Card("store: no answer from node3, po…", True, rows=ROWS, near=ROWS[:1], quoted=ROWS[1])
    shown = drawn(card, width=80).splitlines()
    assert "> job.log:8  … port 29500, 12 tries in all" in shown
    assert "  job.log:7  connecting to node3" in shown
    whole = drawn(replace(card, headline=ROWS[1][1]), width=80)
    assert "job.log:8" not in whole
    assert "job.log:7" in whole


def test_neighbours_go_first_where_there_is_no_room() -> None:
    steps = tuple("word " * 40 for _ in range(3))
    card = replace(CARD, places=(), rows=ROWS, near=(ROWS[2], ROWS[0]), steps=steps)
    assert [row[0] in drawn(card, width=80) for row in ROWS] == [True, True, True]
    shown = drawn(replace(card, why="word " * 90), width=60)
    assert [row[0] in shown for row in ROWS] == [False, True, True]


@pytest.mark.parametrize("lines", [3, 4])
@pytest.mark.parametrize("part", ["why", "steps"])
def test_nothing_is_cut_where_lines_are_left(part: str, lines: int) -> None:
    long = " ".join(f"word{i:03}" for i in range(8 * lines - 2))  # of eight words at 80 columns
    told = {"why": "", "steps": (), "rest": "", part: long if part == "why" else (long,)}
    shown = drawn(replace(CARD, **told), width=80)
    free = MOST_LINES - shown.count("\n")
    assert (f"word{8 * lines - 3:03}" in shown) or not free


def test_ascii() -> None:
    assert drawn(CARD, width=60, encoding="ascii").isascii()
