"""What evidence may not do to a terminal, and what must stay readable."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.prose import Prose
from postmortem.render import safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain /tmp/ä.py — ok", "plain /tmp/ä.py — ok"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]52;c;cm0gLXJm\x07", "\\x1b]52;c;cm0gLXJm\\x07"),  # sets the clipboard
        ("a\nb\r\tc\x00", "a\\nb\\r\\tc\\x00"),
        ("\x9b2J", "\\x9b2J"),  # CSI in one byte
        ("access\u202elevel", "access\\u202elevel"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), "caf\\xe9"),
        ("\ud800x", "\\ud800x"),
        ("no\u00a0break", "no break"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("[bold]not markup[/bold]", "[bold]not markup[/bold]"),
    ],
)
def test_line(text: str, shown: str) -> None:
    assert safe.line(text) == shown


def test_long_lines_are_folded_with_a_count(prose: Prose) -> None:
    folded = safe.line("a" * 600 + "b" * 600, limit=300)
    assert (folded[:200], folded[-100:]) == ("a" * 200, "b" * 100)
    prose(folded[200:-100])


def test_block_keeps_lines_and_folds_many() -> None:
    assert safe.block("a\r\nb\tc\n\x1b[2J\n") == "a\nb       c\n\\x1b[2J"
    rows = safe.block("\n".join(map(str, range(1000))), lines=9).split("\n")
    assert rows == [*map(str, range(6)), "[991 lines left out]", "997", "998", "999"]


def test_stacked_marks_do_not_climb() -> None:
    assert safe.line("e" + "\u0301" * 3) == "e" + "\u0301" * 3
    assert safe.line("e" + "\u0301" * 9).count("\u0301") == 4


@given(st.text(st.characters()))
def test_nothing_unprintable_is_left(text: str) -> None:
    shown = safe.line(text)
    assert "\n" not in shown
    assert all(unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)


@given(st.text(st.characters()))
def test_blocks_have_no_control_but_the_line_break(text: str) -> None:
    assert all(c == "\n" or c.isprintable() for c in safe.block(text))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@given(text=st.text())
def test_encodable_text_can_be_encoded(encoding: str, text: str) -> None:
    safe.encodable(text, encoding).encode(encoding)


def test_ascii_has_words_for_our_own_symbols() -> None:
    assert safe.encodable("← the message · 3 …", "ascii") == "<- the message - 3 ..."


@given(st.text(st.characters()))
def test_without_surrogates_is_valid_unicode(text: str) -> None:
    safe.without_surrogates(text).encode("utf-8")
