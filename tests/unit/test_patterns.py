"""Expressions that are compiled when they are first needed do what those of `re` do."""

import re

import pytest

from postmortem.patterns import Pattern


@pytest.mark.parametrize("text", ["double free, then free, then a free", "double free", "", "a"])
def test_an_expression_does_what_that_of_re_does(text: str) -> None:
    plain, late = re.compile("[a-z]+ free"), Pattern("[a-z]+ free")
    assert late._compiled is None
    assert _found(late.search(text)) == _found(plain.search(text))
    assert _found(late.search(text, 8)) == _found(plain.search(text, 8))
    assert _found(late.match(text)) == _found(plain.match(text))
    assert _found(late.fullmatch(text)) == _found(plain.fullmatch(text))
    assert late.findall(text) == plain.findall(text)
    assert [m.span() for m in late.finditer(text)] == [m.span() for m in plain.finditer(text)]
    assert late.split(text, 1) == plain.split(text, 1)
    assert late.sub("-", text, 1) == plain.sub("-", text, 1)


def _found(match: re.Match[str] | None) -> tuple[int, int] | None:
    return match.span() if match is not None else None
