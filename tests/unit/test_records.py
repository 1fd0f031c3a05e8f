"""A record behaves as a frozen dataclass with slots does."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, fields, replace

import pytest

from postmortem.records import record


@record
class Point:
    """A place."""

    x: int
    y: int = 2

    @property
    def total(self) -> int:
        return self.x + self.y


@dataclass(frozen=True, slots=True)
class Twin:
    """The same, made by the standard library."""

    x: int
    y: int = 2


def test_it_is_made_as_a_dataclass_is() -> None:
    assert (Point(1).x, Point(1).y, Point(1, y=5).total) == (1, 2, 6)
    assert repr(Point(1)) == repr(Twin(1)).replace("Twin", "Point")
    assert [(f.name, f.type, f.default) for f in fields(Point)] == [
        (f.name, f.type, f.default) for f in fields(Twin)
    ]
    assert Point.__match_args__ == ("x", "y")  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]


def test_equality_and_hash_go_by_value_and_class() -> None:
    assert Point(1) == Point(1, 2) != Point(1, 3)
    assert Point(1) != Twin(1)
    assert len({Point(1), Point(1, 2), Point(2)}) == 2
    assert replace(Point(1), y=7) == Point(1, 7)


def test_it_cannot_be_changed() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del point.x
    with pytest.raises(FrozenInstanceError):
        point.z = 2  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")


def test_copies_are_equal() -> None:
    assert copy.deepcopy(Point(1)) == Point(1)
    assert pickle.loads(pickle.dumps(Point(1))) == Point(1)
