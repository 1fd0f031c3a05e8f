"""The border: what the extension gives is what `_native.pyi` promises.

Each value that any test of this folder's parent has made is compared with the stub, field by
field (`builders.border`). Here: that nothing of the stub is left out of that.
"""

import ast
import typing
from typing import Any

import pytest

from builders import border
from postmortem import _native

GIVEN = {"RawQuery"}
"""Rows that are given, not returned: mypy compares them."""


def test_every_row_of_the_stub_is_compared() -> None:
    rows = {name for name, one in border.stub().items() if typing.is_typeddict(one)}
    compared = {row for hint in border.returned().values() for row in border.rows_in(hint)}
    assert rows == compared | GIVEN


def test_the_stub_names_what_the_extension_has() -> None:
    body = ast.parse(border.STUB.read_text(encoding="utf-8")).body
    named = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    named |= {
        node.target.id
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert named == {name for name in vars(_native) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ({"where": "a", "what": "b"}, "RawProblem"),
        ({"where": "a", "what": "b", "remedy": 3}, "RawProblem"),
        ({"where": "a", "what": "b", "remedy": None, "more": 1}, "RawProblem"),
        ([{"where": "a"}], "RawProblem"),
        ({"file": None, "line": True, "function": "f"}, "RawTracebackLine"),
    ],
    ids=["missing", "type", "unknown", "list", "bool"],
)
def test_a_row_that_differs_is_refused(value: Any, hint: str) -> None:
    with pytest.raises(border.Unlike):
        border.check_of(border.stub()[hint])(value, "here")
