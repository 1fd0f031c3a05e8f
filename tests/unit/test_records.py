"""A record behaves as a frozen dataclass does."""

import copy
import dataclasses
import pickle
from dataclasses import dataclass, fields

import pytest

from builders.prose import Prose
from postmortem.records import record, replace


@record
class Point:
    """A place."""

    x: int
    y: int = 2

    @property
    def total(self) -> int:
        return self.x + self.y


@dataclass(frozen=True)
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


def test_a_wrong_call_names_the_field(prose: Prose) -> None:
    with pytest.raises(TypeError, match=r"Point\(\) misses field 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no field 'z'"):
        Point(1, z=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError) as refused:
        Point(1, x=2)
    prose(refused.value)  # type: ignore[misc]
    with pytest.raises(TypeError, match="takes 2 fields but 3 were given"):
        Point(1, 2, 3)  # type: ignore[call-arg]


def test_equality_and_hash_go_by_value_and_class() -> None:
    assert Point(1) == Point(1, 2) != Point(1, 3)
    assert Point(1) != Twin(1)
    assert len({Point(1), Point(1, 2), Point(2)}) == 2
    assert replace(Point(1), y=7) == dataclasses.replace(Point(1), y=7) == Point(1, 7)
    assert dataclasses.is_dataclass(Point(1))
    with pytest.raises(TypeError, match="no field 'z'"):
        replace(Point(1), z=7)  # type: ignore[call-arg]


def test_it_cannot_be_changed(prose: Prose) -> None:
    point = Point(1)
    with pytest.raises(AttributeError) as refused:
        point.x = 2
    prose(refused.value)  # type: ignore[misc]
    with pytest.raises(AttributeError) as refused:
        del point.x
    prose(refused.value)
    with pytest.raises(AttributeError) as refused:
        point.z = 2
    prose(refused.value)  # type: ignore[attr-defined]
    assert point == Point(1)


def test_copies_are_equal() -> None:
    assert copy.deepcopy(Point(1)) == Point(1)
    assert pickle.loads(pickle.dumps(Point(1))) == Point(1)
