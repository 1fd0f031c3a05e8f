"""All strings in a tree of records, tuples and mappings: to see them, and to change some."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeGuard, TypeVar, cast

from postmortem.records import is_record

T = TypeVar("T")


Words = tuple[str, ...]


def strings(value: object, commands: list[Words] | None = None) -> list[str]:
    """Return every string in the order in which it stands; what is shared, once.

    `commands` takes the command lines (`argv`) besides, whole.
    """
    found: list[str] = []
    seen: dict[int, object] = {}  # with the objects, so that an id stays its own
    todo: list[Any] = [value]  # without casts, which are calls
    shapes: dict[type, Words | None] = {}  # fields of a record
    while todo:
        item = todo.pop()
        kind = type(item)
        if kind is str:
            found.append(item)
            continue
        if id(item) in seen:
            continue
        if kind not in shapes:
            shapes[kind] = kind.__match_args__ if is_record(item) else None
        names = shapes[kind]
        if names is not None:
            fields = vars(item)
            parts: Iterable[Any] = [fields[name] for name in names]
            if commands is not None and "argv" in names and _is_command(fields["argv"]):
                commands.append(fields["argv"])
        elif kind is tuple:  # most of what there is
            parts = item
        else:
            parts = _parts(item)
        inner = [part for part in parts if type(part) not in _LEAVES and part is not _NOTHING]
        if not inner:
            continue
        seen[id(item)] = item
        if {*map(type, inner)} == _TEXT:
            found += inner
            continue
        inner.reverse()
        while type(inner[-1]) is str:  # what comes next need not wait
            found.append(inner.pop())
        todo += inner
    return found


_NOTHING = ()
_TEXT = frozenset((str,))
_LEAVES = frozenset((int, float, bool, type(None)))


def _is_command(argv: object) -> TypeGuard[Words]:
    return isinstance(argv, tuple) and all(type(word) is str for word in argv)


def _parts(item: object) -> list[object]:
    """Return what a container holds."""
    if isinstance(item, tuple | list | frozenset | set):
        return [*item]
    if isinstance(item, Mapping):
        return [part for pair in item.items() for part in pair]
    return []


def _fields(item: object) -> dict[str, object]:
    """Return the fields of a record, without what it keeps of its own answers."""
    known = vars(item)
    return {name: known[name] for name in type(item).__match_args__}  # type: ignore[attr-defined]


def replaced(value: T, text: Callable[[str], str], words: Callable[[Words], Words]) -> T:
    """Return a tree with its strings changed by `text`, and command lines (`argv`) by `words`.

    What holds nothing that changes stays the same object, and what is shared stays shared.
    """
    return cast(T, _Changing(text, words).of(value))


class _Changing:
    def __init__(
        self, text: Callable[[str], str], words: Callable[[tuple[str, ...]], tuple[str, ...]]
    ) -> None:
        self._text = text
        self._words = words
        self._known: dict[int, tuple[object, object]] = {}

    def of(self, item: object) -> object:
        kind = type(item)
        if kind is str:
            return self._text(cast(str, item))
        if kind is int or item is None or kind is float or kind is bool:
            return item
        known = self._known.get(id(item))
        if known is None:
            known = self._known[id(item)] = item, self._changed(item)
        return known[1]

    def _changed(self, item: object) -> object:
        if isinstance(item, Enum):
            return item
        if isinstance(item, tuple | list):
            parts = [self.of(part) for part in item]
            if all(map(_same, parts, item)):
                return item
            return tuple(parts) if isinstance(item, tuple) else parts
        if isinstance(item, frozenset | set):
            return type(item)(self.of(part) for part in item)
        if isinstance(item, Mapping):
            made = {self.of(key): self.of(part) for key, part in item.items()}
            if all(map(_same, (*made, *made.values()), (*item, *item.values()))):
                return item
            return MappingProxyType(made) if isinstance(item, MappingProxyType) else made
        if not is_record(item):
            return item
        fields = _fields(item)
        changed = {name: self._field(name, part) for name, part in fields.items()}
        if all(map(_same, changed.values(), fields.values())):
            return item
        return type(item)(**changed)

    def _field(self, name: str, part: object) -> object:
        if name == "argv" and _is_command(part):
            masked = self._words(part)
            return part if masked == part else masked
        return self.of(part)


def _same(one: object, other: object) -> bool:
    return one is other or (type(one) is str and one == other)
