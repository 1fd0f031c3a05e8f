"""Markdown for an issue: a golden page, and evidence that tries to act on it."""

import io
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from builders.prose import Prose
from builders.reports import full_report
from postmortem.render import safe
from postmortem.render.markdown import inline, render
from postmortem.report.blocks import Backtrace, BacktraceLine, Excerpt, Table
from postmortem.report.model import Report

EMPTY = Report("core", (), "nothing is wrong", False, (), (), {})


def written(report: Report) -> str:
    out = io.StringIO()
    render(report, out)
    return out.getvalue()


def test_page(golden: Callable[[str, str], None]) -> None:
    golden("core.md", written(full_report()))


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("plain words, 41.9 MB (ok)", "plain words, 41.9 MB (ok)"),
        ("ask @torvalds please", "ask `@torvalds` please"),
        ("fixes #12 and GH-7", "fixes `#12` and `GH-7`"),
        ("see https://evil.example/x.", "see `https://evil.example/x`."),
        ("![i](http://e/x.png)", "`![i](http://e/x.png)`"),
        ("<script>alert(1)</script>", "`<script>alert(1)</script>`"),
        ("a `b` c", "a `` `b` `` c"),
        ("<log folder>", "`<log folder>`"),
        ("__init__", "`__init__`"),
        ("x|y", "<code>x&#124;y</code>"),
        ("- not a list", "\\- not a list"),
        ("3. not a list", "3\\. not a list"),
        ("=====", "\\====="),
        ("python train.py   pid 7", "python train.py · pid 7"),
        ("back\\slash", "`back\\slash`"),
        ("www.evil.example", "`www.evil.example`"),
    ],
)
def test_inline(text: str, markdown: str) -> None:
    assert inline(text) == markdown


WORDS = (
    "https://e.x",
    "www.e.x",
    "@user",
    "#12",
    "<!--",
    "<b>",
    "![i](u)",
    "[a](b)",
    "&amp;",
    "1.",
)
MISCHIEF = st.lists(
    st.sampled_from([*"ab1 \\`*_{}[]()<>#+-.!|~&@$:/'\"=\n\t\x1b", *WORDS]), max_size=30
).map("".join)


def tokens(markdown: str) -> list[Token]:
    """Return what a Markdown parser sees inside of blocks."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
    blocks = parser.parse(markdown)
    return [inner for block in blocks for inner in block.children or ()]


def assert_harmless(found: list[Token]) -> None:
    for token in found:
        assert token.type in {"text", "code_inline", "html_inline", "softbreak", "hardbreak"}, token
        if token.type == "html_inline":
            assert token.content in {"<br>", "<code>", "</code>"}
    # GitHub looks for these in all text but code.
    inside = 0
    for token in found:
        inside += {"<code>": 1, "</code>": -1}.get(token.content, 0)
        if token.type == "text" and not inside:
            assert not re.search(r"@\w|://|www\.|#\d", token.content)


@given(MISCHIEF)
def test_nothing_in_a_sentence_acts(text: str) -> None:
    markdown = inline(text)
    found = tokens(markdown)
    assert_harmless(found)
    shown = "".join(t.content for t in found if t.type in {"text", "code_inline"})
    expected = re.sub(" {2,}", " · ", safe.line(text).strip())
    assert re.sub(r"[ ·]", "", shown) == re.sub(r"[ ·]", "", expected)


@given(MISCHIEF, MISCHIEF)
def test_nothing_in_a_table_acts(first: str, second: str) -> None:
    page = written(replace(EMPTY, blocks=(Table(("a", "b"), ((first, second),)),)))
    assert_harmless(tokens(page))
    blocks = MarkdownIt("commonmark").enable("table").parse(page)
    assert sum(token.type == "td_open" for token in blocks) == 2


def test_evidence_cannot_end_a_fence() -> None:
    stack = Backtrace("stack", (BacktraceLine("f\n```\n# owned", 0), BacktraceLine("````", 1)))
    page = written(replace(EMPTY, blocks=(stack, Excerpt("log", ((1, "`````"),)))))
    fences = re.findall(r"^`{3,}(?:text)?$", page, re.MULTILINE)
    assert fences == ["`````text", "`````", "``````text", "``````"]


def test_cells_cannot_end_their_column() -> None:
    page = written(replace(EMPTY, blocks=(Table(("a", "b"), (("x|y\\|z", "line\nbreak"),)),)))
    row = page.splitlines()[-1]
    assert row.count("|") == 3
    assert "line<br>break" in row


def test_long_stacks_are_folded_away() -> None:
    stack = Backtrace("<b>deep</b>", tuple(BacktraceLine(f"f{i}", i) for i in range(60)))
    page = written(replace(EMPTY, blocks=(stack,)))
    assert "<summary>&#60;b&#62;deep&#60;&#47;b&#62;</summary>" in page


def test_a_page_fits_into_an_issue(prose: Prose) -> None:
    stack = Backtrace("deep", tuple(BacktraceLine("f" * 100, i) for i in range(150)))
    page = written(replace(EMPTY, blocks=(stack,) * 10))
    assert len(page) < 65_536
    prose(*(line for line in page.splitlines() if "left out" in line))
