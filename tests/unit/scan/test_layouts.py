"""Strides of all kinds against a walk over the elements in C order."""

import ctypes
import itertools
import random
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.numbers import ITEM, facts_of, values_of
from postmortem import _scan

ROOM = 4096


@st.composite
def views(draw: st.DrawFn) -> tuple[list[int], list[int], int, str, int]:
    """Shape, strides, offset, data type and seed of a view into a room of ROOM values."""
    rank = draw(st.integers(0, 4))
    shape = [draw(st.integers(0, 9)) for _ in range(rank)]
    strides = [draw(st.sampled_from([0, 1, -1, 2, 3, 9, -9, 27, 81, 64])) for _ in range(rank)]
    low = sum(
        (size - 1) * stride
        for size, stride in zip(shape, strides, strict=True)
        if stride < 0 and size
    )
    dtype = draw(st.sampled_from(["float32", "float16", "float64", "float8_e4m3fn", "int16"]))
    return shape, strides, -low, dtype, draw(st.integers(0, 1 << 30))


def check(shape: list[int], strides: list[int], offset: int, dtype: str, data: bytes) -> None:
    values = values_of(data, dtype)
    room = ctypes.create_string_buffer(data, len(data))
    places = itertools.product(*(range(size) for size in shape))
    seen = [values[offset + sum(i * s for i, s in zip(at, strides, strict=True))] for at in places]
    result = _scan.scan_memory(
        ctypes.addressof(room) + offset * ITEM[dtype], dtype=dtype, shape=shape, strides=strides
    )
    expected = facts_of(seen, dtype)
    found = {name: getattr(result, name) for name in expected}
    assert {k: str(v) for k, v in found.items()} == {k: str(v) for k, v in expected.items()}


@settings(max_examples=300, deadline=None)
@given(views())
def test_equal_to_a_walk(view: tuple[list[int], list[int], int, str, int]) -> None:
    shape, strides, offset, dtype, seed = view
    check(shape, strides, offset, dtype, random.Random(seed).randbytes(ROOM * ITEM[dtype]))


@pytest.mark.parametrize("strides", [[1, 700], [700, 1], [2, 1400], [1500, 2], [0, 1], [-700, -1]])
def test_long_rows_and_long_columns(strides: list[int]) -> None:
    shape = [700, 700] if strides != [1500, 2] else [600, 700]
    low = sum(
        (size - 1) * stride for size, stride in zip(shape, strides, strict=True) if stride < 0
    )
    span = sum((size - 1) * abs(stride) for size, stride in zip(shape, strides, strict=True)) + 1
    check(shape, strides, -low, "float16", random.Random(1).randbytes(span * 2))


def test_an_expanded_scalar_is_counted_as_often_as_it_stands_there() -> None:
    nan = ctypes.create_string_buffer(b"\x00\x00\xc0\x7f", 4)
    result = _scan.scan_memory(ctypes.addressof(nan), dtype="float32", shape=[1 << 40], strides=[0])
    assert (result.numel, result.nan_count, result.first_nonfinite) == (1 << 40, 1 << 40, 0)


def test_complex_numbers_are_counted_by_component() -> None:
    parts = [1.0, 0.0, -3.0, float("inf"), float("nan"), 2.0]
    room = (ctypes.c_float * len(parts))(*parts)
    address = ctypes.addressof(room)
    result = _scan.scan_memory(address, dtype="complex64", shape=[3])
    assert (result.numel, result.zero_count, result.inf_count, result.nan_count) == (3, 1, 1, 1)
    assert (result.first_nonfinite, result.abs_max_finite) == (1, 3.0)
    backwards = _scan.scan_memory(address + 16, dtype="complex64", shape=[3], strides=[-1])
    assert (backwards.first_nonfinite, backwards.numel) == (0, 3)
    assert prod([backwards.abs_min_nonzero]) == 1.0
