"""The JSON report as types: each object's fields in their order, their types, what they mean.

This is the one place for a field. A fact whose fields are all told is its own shape; a `Shape` says
where a report differs from its fact, or has none. `fill` makes the object out of attributes of the
same names; `docs/make_schema.py` writes schema.json and the tables of
docs/report-schema.md from the same classes.

Types are the few that JSON needs: ``str``, ``int``, ``float``, ``bool``, ``list[X]``,
``tuple[X, ...]``, ``dict[str, X]``, ``X | None``, `Pointer`, a `StrEnum`, a ``Literal``, a fact or
a `Shape`; the module of a fact has ``from __future__ import annotations``. A name that is a keyword
of Python ends in an underscore here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from enum import Enum

from postmortem.facts.signature import Known
from postmortem.records import is_record
from postmortem.text import address

Make = Callable[..., object]


class Shape:
    """An object of the report; its annotations are the fields. None is ever made of one.

    It has the fields of the fact that it is made `of` too, but for those in `without`; what it says
    itself of one of them holds.
    """

    _base: tuple[type | None, tuple[str, ...]] = None, ()

    def __init_subclass__(cls, of: type | None = None, without: tuple[str, ...] = ()) -> None:
        cls._base = of, without


def own_fields(shape: type) -> list[tuple[type, dict[str, str]]]:
    """Return the classes that a shape or fact is made of, each with the fields taken from it."""
    found: list[tuple[type, dict[str, str]]] = []
    for base in reversed(shape.__mro__[:-1]):
        if base is Shape:
            continue
        fact, without = vars(base).get("_base", (None, ()))
        for part, fields in own_fields(fact) if fact is not None else ():
            found.append((part, {n: kind for n, kind in fields.items() if n not in without}))
        fields = base.__annotations__
        untold = ("matches",) if issubclass(base, Known) else ()
        found.append((base, {n: kind for n, kind in fields.items() if n not in untold}))
    return found


def fill(shape: type, source: object = None, /, **given: object) -> dict[str, object]:
    """Return an object of the report: fields that are given, the others out of `source`.

    Tuples become lists, addresses text and facts objects, as the types say. A list is taken as it
    stands: threads that share a stack share the list.
    """
    plan = _plans.get(shape) or _plan(shape)
    row: dict[str, object] = {}
    left = len(given)
    for name, (key, make) in plan.items():
        if name in given:
            value = given[name]
            left -= 1
        else:
            value = getattr(source, name)
        row[key] = value if value is None or make is None else make(value)
    if left:
        unknown = ", ".join(sorted(given.keys() - plan.keys()))
        raise TypeError(f"{shape.__name__} has no field {unknown}")
    return row


def unknown(shape: type) -> dict[str, object]:
    """Return an object of the report of which the evidence says nothing."""
    return dict.fromkeys(key for key, _ in _plan(shape).values())


_plans: dict[type, dict[str, tuple[str, Make | None]]] = {}


def _plan(shape: type) -> dict[str, tuple[str, Make | None]]:
    """Return for each field its key in JSON, and what makes its value."""
    plan: dict[str, tuple[str, Make | None]] = {}
    for base, fields in own_fields(shape):
        known = vars(sys.modules[base.__module__])
        for name, kind in fields.items():
            plan[name] = name.rstrip("_"), _maker(kind, known)
    _plans[shape] = plan  # when it is whole: other threads take it from there
    return plan


def _maker(kind: str, known: Mapping[str, object]) -> Make | None:
    """Return what makes a value that is not None; None where it is JSON already."""
    kind = kind.removesuffix(" | None")
    if kind in ("str", "int", "float", "bool") or kind.startswith("Literal["):
        return None
    if kind.startswith("dict["):
        return dict
    if kind.startswith(("list[", "tuple[")):
        item = _maker(kind.partition("[")[2].removesuffix("]").removesuffix(", ..."), known)
        if item is None:
            return list
        return lambda items: items if type(items) is list else [item(one) for one in items]
    if kind == "Pointer":
        return address
    named = known.get(kind)
    if isinstance(named, type) and issubclass(named, Enum):
        return None
    if isinstance(named, type) and issubclass(named, Shape):
        return lambda value: value if type(value) is dict else fill(named, value)
    return _of_record


def _of_record(value: object) -> object:
    """Return the object of a fact, whose type may be one that no contract can import."""
    return fill(type(value), value) if is_record(value) else value
