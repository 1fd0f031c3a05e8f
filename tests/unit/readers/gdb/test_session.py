"""Which libraries gdb is told to load, and how their paths become regular expressions."""

from __future__ import annotations

import ctypes
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postmortem.readers.gdb.session import Request, _sort_out, alternatives, literal

paths = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=30)

_EMACS, _POSIX_BASIC = 0, None
_LIBC = ctypes.CDLL(None)
_LIBC.re_comp.restype = ctypes.c_char_p
_LIBC.re_comp.argtypes = [ctypes.c_char_p]
_LIBC.re_exec.argtypes = [ctypes.c_char_p]


def matches_in_libc(expression: str, text: str, syntax: int | None) -> bool:
    """Match as gdb does (re_comp, re_exec), under one of the syntaxes that it may be built with."""
    posix_basic = ctypes.c_ulong(_LIBC_POSIX_BASIC)
    ctypes.c_ulong.in_dll(_LIBC, "re_syntax_options").value = (
        posix_basic.value if syntax is _POSIX_BASIC else 0
    )
    try:
        error = _LIBC.re_comp(expression.encode())
        assert error is None, error
        return bool(_LIBC.re_exec(text.encode()))
    finally:
        ctypes.c_ulong.in_dll(_LIBC, "re_syntax_options").value = 0


# RE_SYNTAX_POSIX_BASIC of regex.h: CHAR_CLASSES, DOT_NEWLINE, DOT_NOT_NULL, INTERVALS,
# NO_EMPTY_RANGES, BK_PLUS_QM, CONTEXT_INVALID_DUP.
_LIBC_POSIX_BASIC = 1 << 2 | 1 << 6 | 1 << 7 | 1 << 9 | 1 << 16 | 1 << 1 | 1 << 26


@pytest.mark.parametrize("syntax", [_EMACS, _POSIX_BASIC])
@given(path=paths, other=paths)
def test_expression_matches_its_path_and_no_other(
    syntax: int | None, path: str, other: str
) -> None:
    expression = alternatives((path,))
    assert matches_in_libc(expression, path, syntax)
    assert matches_in_libc(expression, other, syntax) == (other == path)
    assert not matches_in_libc(expression, path + "x", syntax)
    assert not matches_in_libc(expression, "x" + path, syntax)


@pytest.mark.parametrize("syntax", [_EMACS, _POSIX_BASIC])
def test_several_paths_are_alternatives(syntax: int | None) -> None:
    expression = alternatives(("/usr/lib/libstdc++.so.6", "/opt/a[1]/lib.so"))
    assert matches_in_libc(expression, "/usr/lib/libstdc++.so.6", syntax)
    assert matches_in_libc(expression, "/opt/a[1]/lib.so", syntax)
    assert not matches_in_libc(expression, "/usr/lib/libstdc.so.6", syntax)
    assert not matches_in_libc(expression, "/usr/lib/libstdccc.so.6", syntax)


def test_line_ends_in_a_path_cannot_start_a_new_command() -> None:
    assert literal("/a\nshell x") == "/a.shell[ ]x"


@given(st.text(min_size=1))
def test_expression_is_always_one_line_of_ascii(path: str) -> None:
    assert re.fullmatch(r"[ -~]*", literal(path))


def library(path: str, *, loaded: bool = False) -> dict[str, str]:
    return {"host-name": path, "target-name": path, "symbols-loaded": str(int(loaded))}


def test_only_what_is_asked_for_is_wanted() -> None:
    rows = [library("/x/liba.so"), library("/x/libb.so")]
    request = Request(executable=None, load=["/x/libb.so"])
    assert _sort_out(rows, request) == (["/x/libb.so"], False)


def test_mismatched_is_never_wanted_even_when_asked_for() -> None:
    rows = [library("/x/liba.so"), library("/x/libb.so")]
    request = Request(executable=None, load=["/x/liba.so", "/x/libb.so"], mismatched=["/x/libb.so"])
    assert _sort_out(rows, request) == (["/x/liba.so"], False)


def test_everything_but_the_mismatched_is_wanted_without_a_list() -> None:
    rows = [library("/x/liba.so"), library("/x/libc.so.6", loaded=True)]
    request = Request(executable=None, load=None, mismatched=["/x/libc.so.6"])
    assert _sort_out(rows, request) == (["/x/liba.so"], True)
