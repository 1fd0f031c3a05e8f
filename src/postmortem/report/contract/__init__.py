"""The JSON report as types: each object's fields in their order, their types, what they mean.

This is the one place for a field. `fill` makes the object out of a fact with attributes of the same
names; `python -m postmortem.report.contract` writes schema.json and the tables of
docs/report-schema.md from the same classes.

Types are the few that JSON needs: ``str``, ``int``, ``float``, ``bool``, ``list[X]``,
``dict[str, X]``, ``X | None``, `Address`, a `StrEnum`, a ``Literal`` or another `Shape`. A name
that is a keyword of Python ends in an underscore here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from postmortem.text import address

Make = Callable[..., object]


class Address(str):
    """A place in memory: an integer in facts, ``"0x00007f1e2c0013a0"`` in JSON."""


class Shape:
    """An object of the report; its annotations are the fields. None is ever made of one."""


def fill(shape: type[Shape], source: object = None, /, **given: object) -> dict[str, object]:
    """Return an object of the report: fields that are given, the others out of `source`.

    Tuples become lists, addresses text and facts objects, as the types say. A list is taken as it
    stands: threads that share a stack share the list.
    """
    plan = _plans.get(shape) or _plan(shape)
    row: dict[str, object] = {}
    left = len(given)
    for name, key, make in plan:
        if name in given:
            value = given[name]
            left -= 1
        else:
            value = getattr(source, name)
        row[key] = value if value is None or make is None else make(value)
    if left:
        unknown = given.keys() - {name for name, *_ in plan}
        raise TypeError(f"{shape.__name__} has no field {', '.join(sorted(unknown))}")
    return row


_plans: dict[type[Shape], list[tuple[str, str, Make | None]]] = {}


def _plan(shape: type[Shape]) -> list[tuple[str, str, Make | None]]:
    """Return for each field its attribute, its key in JSON, and what makes its value."""
    plan = _plans[shape] = []
    for base in reversed(shape.__mro__[:-1]):
        known = vars(sys.modules[base.__module__])
        for name, kind in base.__annotations__.items():
            plan.append((name, name.rstrip("_"), _maker(kind, known)))
    return plan


def _maker(kind: str, known: Mapping[str, object]) -> Make | None:
    """Return what makes a value that is not None; None where it is JSON already."""
    kind = kind.removesuffix(" | None")
    if kind.startswith("dict["):
        return dict
    if kind.startswith("list["):
        item = _maker(kind[5:-1], known)
        if item is None:
            return list
        return lambda items: items if type(items) is list else [item(one) for one in items]
    named = known.get(kind)
    if named is Address:
        return address
    if isinstance(named, type) and issubclass(named, Shape):
        return lambda value: value if type(value) is dict else fill(named, value)
    return None
