"""What the native extension gives, held against its stub: each row, whatever test has it made."""

import ast
import functools
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import postmortem

STUB = Path(postmortem.__file__).with_name("_native.pyi")
_MOST = 8
"""Items of a list that are looked at: its first ones and its last ones."""

Check = Callable[[Any, str], None]


class Unlike(AssertionError):
    """A value is not what the stub says of it."""


@functools.cache
def stub() -> dict[str, Any]:
    """Return the names of the stub, as Python knows them."""
    source = STUB.read_text(encoding="utf-8")
    for line in ("from _typeshed import WriteableBuffer", "from numpy.typing import NDArray"):
        assert line in source
        source = source.replace(line, "")
    names: dict[str, Any] = {
        **{"__name__": "stub", "WriteableBuffer": object},
        "NDArray": {Any: Any},
    }
    exec(compile(f"from __future__ import annotations\n{source}", str(STUB), "exec"), names)
    return names


def returned() -> dict[str, Any]:
    """Return what each function of the stub returns."""
    functions = {
        node.name: node.returns
        for node in ast.parse(STUB.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
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
        setattr(module, name, _checked(name, plain[name], check_of(hint)))
    yield
    for name, function in plain.items():
        setattr(module, name, function)


def _checked(name: str, function: Callable[..., Any], check: Check) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        found = function(*given, **named)
        check(found, name)
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


@functools.cache
def check_of(hint: Any) -> Check:
    """Return what raises `Unlike` for a value that is not of a type of the stub."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object:
        return lambda value, where: None
    if typing.is_typeddict(hint):
        return _row(hint)
    if origin is typing.NotRequired:
        return check_of(inner[0])
    if origin is typing.Literal:
        return _that(hint, lambda value: value in inner)
    if origin in (types.UnionType, typing.Union):
        return _any_of(hint, inner)
    if origin in (list, set) or (origin is tuple and inner[-1:] == (Ellipsis,)):
        return _many(hint, origin, check_of(inner[0]))
    if origin is tuple:
        return _each(hint, [check_of(one) for one in inner])
    if origin is dict:
        keys, values = _many(hint, list, check_of(inner[0])), _many(hint, list, check_of(inner[1]))
        return lambda value, where: (keys([*value], where), values([*value.values()], where))[0]
    kind = type(None) if hint is None else hint
    if not isinstance(kind, type):
        raise TypeError(f"no such type is known here: {hint}")
    return _that(hint, lambda value: type(value) is kind)


def _that(hint: Any, holds: Callable[[Any], bool]) -> Check:
    def check(value: Any, where: str) -> None:
        if not holds(value):
            raise Unlike(f"{where}: {type(value).__name__} {value!r:.100} is not {hint}")

    return check


def _any_of(hint: Any, inner: tuple[Any, ...]) -> Check:
    rows = [one for one in inner if typing.is_typeddict(one)]
    others = [check_of(one) for one in inner if one not in rows]

    def check(value: Any, where: str) -> None:
        if rows and type(value) is dict:
            like = [one for one in rows if value.keys() <= hints_of(one).keys()]
            return check_of((like or rows)[0])(value, where)
        for one in others:
            try:
                return one(value, where)
            except Unlike:
                continue
        raise Unlike(f"{where}: {type(value).__name__} {value!r:.100} is not {hint}")

    return check


def _many(hint: Any, origin: Any, check_one: Check) -> Check:
    typed = _that(hint, lambda value: type(value) is origin)

    def check(value: Any, where: str) -> None:
        typed(value, where)
        some = list(value) if origin is set else value
        for one in some if len(some) <= _MOST else [*some[: _MOST // 2], *some[-_MOST // 2 :]]:
            check_one(one, f"{where}[]")

    return check


def _each(hint: Any, checks: list[Check]) -> Check:
    typed = _that(hint, lambda value: type(value) is tuple and len(value) == len(checks))

    def check(value: Any, where: str) -> None:
        typed(value, where)
        for one, check_one in zip(value, checks, strict=True):
            check_one(one, f"{where}[]")

    return check


def _row(row: Any) -> Check:
    typed = _that(row, lambda value: type(value) is dict)
    hints = hints_of(row)
    optional = {n for n, one in hints.items() if typing.get_origin(one) is typing.NotRequired}
    needed = hints.keys() - optional if row.__total__ else set()

    def check(value: Any, where: str) -> None:
        typed(value, where)
        unknown, missing = value.keys() - hints.keys(), needed - value.keys()
        if unknown or missing:
            raise Unlike(f"{where}: {row.__name__} has no {unknown or ''}, lacks {missing or ''}")
        for name, one in value.items():
            check_of(hints[name])(one, f"{where}.{name}")

    return check
