"""Frozen dataclasses with slots that cost a start of the program less.

`dataclasses.dataclass` writes six methods of every class as source and compiles them, 0.4 ms for
each of the 60 classes that a report passes. Only `__init__` differs from class to class; the
others are shared here.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, fields
from typing import Any, TypeVar, cast, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def record(cls: type[T]) -> type[T]:
    """Make what ``@dataclass(frozen=True, slots=True)`` makes; `replace` and `fields` know it.

    Fields are positional, with a default or none: there is no `kw_only`, `compare` or
    `default_factory`.
    """
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    _add_init(made)
    for method in (_repr, _eq, _hash, _setattr, _delattr, _reduce):
        setattr(made, f"_{method.__name__}__", method)
    return made


def _add_init(made: type[Any]) -> None:
    parameters, lines = ["self"], []
    known: dict[str, Any] = {"_set": object.__setattr__}
    for field in fields(made):
        if field.default_factory is not MISSING:
            raise TypeError(f"{made.__name__}.{field.name}: a record has no default_factory")
        default = ""
        if field.default is not MISSING:
            default = f"=_default_{field.name}"
            known[f"_default_{field.name}"] = field.default
        parameters.append(field.name + default)
        lines.append(f" _set(self, {field.name!r}, {field.name})")
    # The names are those of the class body, as in dataclasses itself.
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass"), known)
    init = known["__init__"]
    init.__annotations__ = {field.name: field.type for field in fields(made)} | {"return": None}
    init.__qualname__ = f"{made.__qualname__}.__init__"
    setattr(made, "__init__", init)  # noqa: B010  mypy allows no assignment to a method


def _values(record: Any) -> tuple[object, ...]:
    return tuple([getattr(record, name) for name in record.__match_args__])


def _repr(self: object) -> str:
    names = cast(Any, self).__match_args__
    pairs = zip(names, _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _eq(self: object, other: object) -> object:
    if type(other) is not type(self):
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


def _setattr(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _reduce(self: object) -> tuple[type, tuple[object, ...]]:
    return type(self), _values(self)
