"""Frozen records that cost a start of the program next to nothing.

`dataclasses.dataclass` writes the methods of every class as source and compiles them: 0.4 ms for
each of the 60 classes that a report passes, and 12 ms for importing `dataclasses` itself. Here
all records share their methods, and making a class compiles nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform

T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import replace as replace
else:

    def replace(record: T, **changes: object) -> T:
        """Return a copy with some fields changed, as `dataclasses.replace` does."""
        return type(record)(**{**record.__dict__, **changes})


def of_row(kind: type[T], row: Mapping[str, Any], /, **given: Any) -> T:
    """Return a record of the fields that are given, and of those that a row has by their names.

    A field that neither has keeps its default.
    """
    names = cast(Any, kind).__match_args__
    return kind(**{**{name: row[name] for name in names if name in row}, **given})


def is_record(value: object) -> bool:
    """Return whether a value, or a type, is a record: `vars` of the value are its fields."""
    kind = value if isinstance(value, type) else type(value)
    return isinstance(vars(kind).get("__dataclass_fields__"), _Fields)


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make what ``@dataclass(frozen=True)`` makes; `dataclasses.replace` and `fields` know it.

    Fields are positional, with a default or none: there is no `kw_only`, `compare`, `init=False`,
    no `ClassVar`, no `default_factory` and no field from a base class.
    """
    made = cast(Any, cls)
    names = tuple(cls.__annotations__)
    made.__init__ = _init_for(cls, names)
    setattr(cls, "__match_args__", names)  # noqa: B010  mypy allows no assignment
    made.__dataclass_fields__ = _Fields()
    for method in (_repr, _eq, _hash, _setattr, _delattr):
        setattr(cls, f"_{method.__name__}__", method)
    return cls


def _init_for(cls: type[Any], names: tuple[str, ...]) -> Any:
    defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
    known, count = frozenset(names), len(names)

    def __init__(self: Any, *args: object, **kwargs: object) -> None:
        values = self.__dict__  # the way past __setattr__, and the fastest one
        if len(args) == count and not kwargs:
            values.update(zip(names, args, strict=True))
            return
        values.update(defaults)
        if args:
            values.update(zip(names, args, strict=False))
        values.update(kwargs)
        if values.keys() == known and not (args and not _each_once(names, args, kwargs)):
            return
        values.clear()
        raise TypeError(_wrong_call(cls, names, args, kwargs))

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


def _each_once(names: tuple[str, ...], args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    return len(args) <= len(names) and kwargs.keys().isdisjoint(names[: len(args)])


def _wrong_call(
    cls: type[Any], names: tuple[str, ...], args: tuple[object, ...], kwargs: dict[str, object]
) -> str:
    given = {*names[: len(args)], *kwargs}
    if len(args) > len(names):
        return f"{cls.__name__}() takes {len(names)} fields but {len(args)} were given"
    if unknown := sorted(kwargs.keys() - set(names)):
        return f"{cls.__name__}() has no field {', '.join(map(repr, unknown))}"
    if twice := sorted(kwargs.keys() & set(names[: len(args)])):
        return f"{cls.__name__}() got two values for field {', '.join(map(repr, twice))}"
    missing = [name for name in names if name not in given and name not in cls.__dict__]
    return f"{cls.__name__}() misses field {', '.join(map(repr, missing))}"


class _Fields:
    """The description that `dataclasses.fields` and `replace` read, made when it is asked for."""

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, Any]:
        from dataclasses import dataclass

        names, known = owner.__match_args__, owner.__dict__
        own = {name: known[name] for name in names if name in known}
        own["__annotations__"] = owner.__annotations__
        twin = cast(Any, dataclass(init=False, repr=False, eq=False)(type("Twin", (), own)))
        fields: dict[str, Any] = twin.__dataclass_fields__
        return fields


def _values(record: Any) -> tuple[object, ...]:
    values = record.__dict__
    return tuple([values[name] for name in record.__match_args__])


def _repr(self: object) -> str:
    pairs = zip(cast(Any, self).__match_args__, _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _eq(self: object, other: object) -> object:
    if type(other) is not type(self):
        return NotImplemented
    return self.__dict__ == other.__dict__


def _hash(self: object) -> int:
    return hash(_values(self))


def _setattr(self: object, name: str, value: object) -> None:
    raise AttributeError(f"cannot assign to field {name!r} of a record")


def _delattr(self: object, name: str) -> None:
    raise AttributeError(f"cannot delete field {name!r} of a record")
