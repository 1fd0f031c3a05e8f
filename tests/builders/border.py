"""What the native extension gives, held against its stub: each row, whatever test has it made."""

import ast
import functools
import itertools
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import postmortem

STUB = Path(postmortem.__file__).with_name("_native.pyi")
_MOST = 64
"""Items of a list that are looked at: its first ones and its last ones."""


class Unlike(AssertionError):
    """A value is not what the stub says of it."""


@functools.cache
def stub() -> dict[str, Any]:
    """Return the names of the stub, as Python knows them."""
    source = STUB.read_text(encoding="utf-8")
    for line in ("from _typeshed import WriteableBuffer", "from numpy.typing import NDArray"):
        assert line in source
        source = source.replace(line, "")
    names: dict[str, Any] = {"__name__": "stub", "WriteableBuffer": object, "NDArray": {Any: Any}}
    exec(compile(f"from __future__ import annotations\n{source}", str(STUB), "exec"), names)
    return names


def returned() -> dict[str, Any]:
    """Return what each function of the stub returns."""
    functions = {
        node.name: node.returns
        for node in ast.parse(STUB.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        if not any(ast.unparse(one) == "overload" for one in node.decorator_list)
    }
    return {
        name: eval(ast.unparse(told), stub())
        for name, told in functions.items()
        if told is not None
    } | {"close_export": eval("RawTables | RawClosed", stub())}


def check_calls(module: Any) -> Iterator[None]:
    """Have every value that the extension returns be compared with its stub."""
    with_rows = {name: hint for name, hint in returned().items() if rows_in(hint)}
    plain = {name: getattr(module, name) for name in with_rows}
    for name, hint in with_rows.items():
        setattr(module, name, _checked(name, plain[name], hint))
    yield
    for name, function in plain.items():
        setattr(module, name, function)


def _checked(name: str, function: Callable[..., Any], hint: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        found = function(*given, **named)
        compare(found, hint, name)
        return found

    return call


def rows_in(hint: Any) -> set[str]:
    """Return the names of the rows that a value of this type may hold."""
    found: set[str] = set()
    left = [hint]
    while left:
        one = left.pop()
        if typing.is_typeddict(one) and one.__name__ not in found:
            found.add(one.__name__)
            left += hints_of(one).values()
        left += typing.get_args(one)
    return found


@functools.cache
def hints_of(row: Any) -> dict[str, Any]:
    """Return the types of the fields of a row."""
    return typing.get_type_hints(row, stub(), include_extras=True)


def compare(value: Any, hint: Any, where: str) -> None:
    """Raise `Unlike` where a value is not of a type of the stub."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object:
        return
    if typing.is_typeddict(hint):
        _compare_row(value, hint, where)
    elif origin is typing.NotRequired:
        compare(value, inner[0], where)
    elif origin is typing.Literal:
        _demand(value in inner, where, value, hint)
    elif origin in (types.UnionType, typing.Union) and isinstance(value, dict):
        rows = [one for one in inner if typing.is_typeddict(one)]
        like = [one for one in rows if value.keys() <= hints_of(one).keys()]
        compare(value, (like or rows or inner)[0], where)
    elif origin in (types.UnionType, typing.Union):
        _demand(any(_is_like(value, one, where) for one in inner), where, value, hint)
    elif origin in (list, set) or (origin is tuple and inner[-1:] == (Ellipsis,)):
        _demand(type(value) is origin, where, value, hint)
        for at, one in enumerate(_some(value)):
            compare(one, inner[0], f"{where}[{at}]")
    elif origin is tuple:
        _demand(type(value) is tuple and len(value) == len(inner), where, value, hint)
        for at, (one, kind) in enumerate(zip(value, inner, strict=True)):
            compare(one, kind, f"{where}[{at}]")
    elif origin is dict:
        _demand(type(value) is dict, where, value, hint)
        for key, one in itertools.islice(value.items(), _MOST):
            compare(key, inner[0], f"{where} key")
            compare(one, inner[1], f"{where}[{key!r}]")
    elif hint is None or isinstance(hint, type):
        _demand(type(value) is (type(None) if hint is None else hint), where, value, hint)
    else:
        raise TypeError(f"{where}: no such type is known here: {hint}")


def _compare_row(value: Any, row: Any, where: str) -> None:
    _demand(type(value) is dict, where, value, row)
    hints = hints_of(row)
    needed = {n for n, one in hints.items() if typing.get_origin(one) is not typing.NotRequired}
    unknown = value.keys() - hints.keys()
    missing = needed - value.keys() if row.__total__ else set()
    if unknown or missing:
        raise Unlike(f"{where}: {row.__name__} has no {unknown or ''}, lacks {missing or ''}")
    for name, one in value.items():
        compare(one, hints[name], f"{where}.{name}")


def _is_like(value: Any, hint: Any, where: str) -> bool:
    try:
        compare(value, hint, where)
    except Unlike:
        return False
    return True


def _some(values: Any) -> Iterable[Any]:
    if not isinstance(values, (list, tuple)) or len(values) <= _MOST:
        return values
    return [*values[: _MOST // 2], *values[-_MOST // 2 :]]


def _demand(holds: bool, where: str, value: Any, hint: Any) -> None:
    if not holds:
        raise Unlike(f"{where}: {type(value).__name__} {value!r:.100} is not {hint}")
