"""Expressions that name the words which they cannot do without: that it is true, and what it does.

Whether it is true is read from the expression itself: all ways through its syntax tree are written
down as texts, with a gap where anything may stand, and each must hold one of the words.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterable, Iterator
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import postmortem
from postmortem.patterns import Pattern

GAP = "\0"
_MOST = 50_000
"""Texts of one expression; one that has more cannot say what it needs."""
_LEFT_OUT = ("postmortem.demo.", "postmortem.integrations.", "postmortem.monitor.")
"""Modules that are programs which crash, import trainers, or run in a training process."""
_NOTHING = {codes.AT, codes.ASSERT, codes.ASSERT_NOT}
_REPEATS = {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}


def _texts(tree: Iterable[tuple[Any, Any]]) -> set[str]:
    """Return what a match may look like; a gap stands for any text."""
    whole = {""}
    for code, argument in tree:
        parts = _parts(code, argument)
        assert len(whole) * len(parts) <= _MOST, "too many ways to match"
        whole = {head + tail for head, tail in itertools.product(whole, parts)}
    return whole


def _parts(code: Any, argument: Any) -> set[str]:
    if code in _NOTHING:
        return {""}
    if code is codes.LITERAL:
        return {chr(argument)}
    if code is codes.IN and all(kind is codes.LITERAL for kind, _ in argument):
        return {chr(value) for _, value in argument}
    if code is codes.BRANCH:
        return set().union(*map(_texts, argument[1]))
    if code is codes.SUBPATTERN:
        return _texts(argument[-1])
    if code is codes.ATOMIC_GROUP:
        return _texts(argument)
    if code in _REPEATS:
        least, most, tree = argument
        once = _texts(tree)
        if (least, most) == (0, 1):
            return {"", *once}
        return {text + end for text in once for end in ("", GAP)} if least else {"", GAP}
    return {GAP}


def _needs(pattern: str, words: tuple[str, ...], flags: int = 0) -> bool:
    tree = parser.parse(pattern, flags)
    if tree.state.flags & re.IGNORECASE:
        return False
    return all(any(word in text for word in words) for text in _texts(tree))


def _all_patterns() -> Iterator[Pattern]:
    for module in pkgutil.walk_packages(postmortem.__path__, "postmortem."):
        if module.name.endswith("__main__") or module.name.startswith(_LEFT_OUT):
            continue
        try:
            importlib.import_module(module.name)
        except ImportError:
            continue  # PyTorch, pyarrow: not there everywhere
    yield from (item for item in gc.get_objects() if type(item) is Pattern)


def test_every_expression_needs_the_words_that_it_names() -> None:
    named = [item for item in _all_patterns() if item.words]
    assert len(named) > 60
    untrue = {
        item.pattern: item.words
        for item in named
        if not _needs(item.pattern, item.words, item.regex.flags & ~re.UNICODE)
    }
    assert untrue == {}


@pytest.mark.parametrize(
    ("pattern", "words", "true"),
    [
        ("double free", ("double free",), True),
        ("^_*(free|malloc)$", ("free", "alloc"), True),
        ("^_*(free|malloc)?$", ("free", "alloc"), False),
        ("[Ff]atal", ("atal",), True),
        ("[Ff]atal", ("fatal",), False),
        ("a(b|c)d", ("ab", "cd"), True),
        ("ab*c", ("ab",), False),
        ("a.c", ("ac",), False),
        (r"(?<=word)x", ("word",), False),
        ("(?i)word", ("word",), False),
        ("(?:ab)+", ("ab",), True),
        ("(?>ab|ac)", ("ab", "ac"), True),
    ],
)
def test_the_check_sees_through_an_expression(
    pattern: str, words: tuple[str, ...], true: bool
) -> None:
    assert _needs(pattern, words) is true


def test_an_expression_is_not_compiled_for_a_text_without_its_words() -> None:
    pattern = Pattern(r"(\w+) free\b", words=(" free",))
    text = "corrupted size"
    assert pattern.search(text) is None
    assert pattern.match(text) is None
    assert pattern.fullmatch(text) is None
    assert pattern.findall(text) == []
    assert [*pattern.finditer(text)] == []
    assert pattern.split(text) == [text]
    assert pattern.sub("", text) == text
    assert pattern._compiled is None


def test_an_expression_with_words_does_what_it_does_without_them() -> None:
    text = "double free, then free, then a free"
    plain, worded = Pattern(r"[a-z]+ free"), Pattern(r"[a-z]+ free", words=(" free",))
    for tried in (text, text[7:], "double free", ""):
        assert _found(worded.search(tried)) == _found(plain.search(tried))
        assert _found(worded.match(tried)) == _found(plain.match(tried))
        assert _found(worded.fullmatch(tried)) == _found(plain.fullmatch(tried))
        assert worded.findall(tried) == plain.findall(tried)
        assert [m.span() for m in worded.finditer(tried)] == [
            m.span() for m in plain.finditer(tried)
        ]
        assert worded.split(tried, 1) == plain.split(tried, 1)
        assert worded.sub("-", tried, 1) == plain.sub("-", tried, 1)
    assert _found(worded.search(text, 8)) == (13, 22)


def _found(match: re.Match[str] | None) -> tuple[int, int] | None:
    return match.span() if match is not None else None
