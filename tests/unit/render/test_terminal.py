"""The terminal report as plain text at fixed widths, and what it does with hostile evidence."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest

from builders.reports import CRASHED, MIXED, SHM, WATCHDOG, full_report
from postmortem.facts.source import Problem
from postmortem.render.paint import Painter
from postmortem.render.terminal import render
from postmortem.render.wrapping import cells
from postmortem.report.blocks import Backtrace, BacktraceLine, Block, KeyValues, Note, Table
from postmortem.report.model import Evidence, Report

EMPTY = Report("core", (), "nothing is wrong", False, (), (), {})


def drawn(report: Report, **options: object) -> str:
    out = io.StringIO()
    render(report, out, **options)  # type: ignore[arg-type]
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_text(width: int, golden: Callable[[str, str], None]) -> None:
    golden(f"core-{width}.txt", drawn(full_report(), width=width))


def test_verbose_ascii(golden: Callable[[str, str], None]) -> None:
    text = drawn(full_report(), width=80, encoding="ascii", verbose=True)
    assert text.isascii()
    golden("core-80-verbose-ascii.txt", text)


@pytest.mark.parametrize("width", range(40, 180, 7))
def test_no_line_is_wider_than_the_page(width: int) -> None:
    assert max(map(cells, drawn(full_report(), width=width).splitlines())) <= width


@pytest.mark.parametrize("width", [40, 70, 100])
def test_a_long_place_is_no_wider_than_the_page(width: int) -> None:
    report = full_report()
    best = replace(report.diagnoses[0], evidence=(Evidence("folder/" * 16 + "log:7", "what"),))
    text = drawn(replace(report, diagnoses=(best,)), width=width)
    assert max(map(cells, text.splitlines())) <= width
    assert "folder/" * 16 + "log:7" in re.sub(r"\s", "", text)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_word_of_a_frame_is_lost(width: int) -> None:
    text = re.sub(r"\s", "", drawn(replace(EMPTY, blocks=(CRASHED, MIXED)), width=width))
    for line in (*CRASHED.lines, *MIXED.lines):
        for part in (line.function, line.module, line.location, line.note, line.marker):
            assert re.sub(r"\s", "", part or "") in text


def test_colour_changes_nothing_but_the_colour() -> None:
    coloured = drawn(full_report(), color=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == drawn(full_report())


def test_what_is_plain_has_no_colour_and_all_else_is_set_back() -> None:
    out = io.StringIO()
    painter = Painter(out, color=True)
    painter.write((("  ", "plain"), ("> ", "marker"), ("", "bad"), ("why", "label")))
    assert out.getvalue() == "  \x1b[1;33m> \x1b[0m\x1b[36mwhy\x1b[0m\n"


def test_the_verdict_is_the_first_line() -> None:
    assert drawn(EMPTY) == "nothing is wrong\n"


def test_a_title_that_the_verdict_says_is_not_said_twice() -> None:
    report = replace(EMPTY, verdict=f"SIGABRT: {WATCHDOG.title}", diagnoses=(WATCHDOG,))
    text = drawn(report)
    assert text.count(WATCHDOG.title) == 1
    assert "cause     thread" in text


def test_the_second_diagnosis_is_shorter_unless_verbose() -> None:
    report = replace(EMPTY, diagnoses=(WATCHDOG, SHM))
    brief, whole = drawn(report), drawn(report, verbose=True)
    assert "num_workers=0" not in brief
    assert "(1 more with -v)" in brief
    assert "num_workers=0" in whole


def test_problems_join_a_list_of_trouble() -> None:
    trouble = KeyValues((("libmyops.so", "not the build that crashed"),), "trouble")
    problem = Problem("core", "is cut", "copy it again")
    text = drawn(replace(EMPTY, blocks=(trouble,), problems=(problem,)))
    assert text.endswith(
        "trouble\n  libmyops.so  not the build that crashed\n"
        "  core         is cut\n               → copy it again\n"
    )


def test_of_many_problems_the_rest_is_counted() -> None:
    problems = tuple(Problem(f"part {i}", "unreadable") for i in range(20))
    text = drawn(replace(EMPTY, problems=problems))
    assert "12 more with -v" in text
    assert "part 19" in drawn(replace(EMPTY, problems=problems), verbose=True)


HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold]x[/bold]\u202e :smile: \udce9"


def test_hostile_evidence_reaches_the_page_as_text() -> None:
    report = replace(
        EMPTY,
        verdict=HOSTILE,
        blocks=(
            Backtrace(HOSTILE, (BacktraceLine(HOSTILE, 0, HOSTILE, HOSTILE, HOSTILE, HOSTILE),)),
            Table((HOSTILE,), ((HOSTILE,),)),
            KeyValues(((HOSTILE, HOSTILE),)),
            Note(HOSTILE),
        ),
        problems=(Problem(HOSTILE, HOSTILE, HOSTILE),),
        footer=(HOSTILE,),
    )
    text = drawn(report, color=False)
    assert all(c == "\n" or c.isprintable() for c in text)
    assert "[bold]x[/bold]\\u202e :smile: \\xe9" in text.splitlines()[0]


def test_empty_blocks_do_not_break_the_page() -> None:
    blocks = (
        Backtrace("no frames", ()),
        Table(("a", "b"), ()),
        Table((), ()),
        KeyValues(()),
        Note(""),
    )
    assert "no frames" in drawn(replace(EMPTY, blocks=blocks))


def test_a_table_too_wide_for_the_page_becomes_records() -> None:
    table = Table(tuple("abcdefgh"), (tuple(f"{c} is a cell" for c in "abcdefgh"),))
    text = drawn(replace(EMPTY, blocks=(table,)), width=60)
    assert "  a         a is a cell\n" in text or "  a  a is a cell\n" in text


def test_the_sample_has_every_kind_of_block() -> None:
    """The goldens show all of them; that no kind is forgotten is checked by mypy (assert_never)."""
    assert {type(block) for block in full_report().blocks} == set(get_args(Block))
