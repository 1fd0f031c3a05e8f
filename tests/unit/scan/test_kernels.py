"""Every instruction set against a plain reference, on random bits."""

import ctypes
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest

from builders.commands import execute
from builders.numbers import ITEM, facts_of, values_of
from postmortem import _scan

pytest.importorskip("postmortem.scan")

LEVELS = _scan.levels()


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    before = _scan.level()
    _scan.use_level(request.param)
    yield request.param
    _scan.use_level(before)


def scanned(data: bytes, dtype: str, *, offset: int = 0) -> dict[str, object]:
    """Scan bytes that stand `offset` bytes behind an aligned address."""
    room = ctypes.create_string_buffer(len(data) + offset + 64)
    start = (ctypes.addressof(room) + 63) // 64 * 64 + offset
    ctypes.memmove(start, data, len(data))
    result = _scan.scan_memory(start, dtype=dtype, shape=[len(data) // ITEM[dtype]])
    assert result.dtype == dtype
    return fields(result)


def fields(result: _scan.ScanResult) -> dict[str, object]:
    names = facts_of([], "float32")
    return {name: getattr(result, name) for name in names}


def same(found: dict[str, object], expected: dict[str, object]) -> None:
    assert {name: str(value) for name, value in found.items()} == {
        name: str(value) for name, value in expected.items()
    }


def kinds_of_data(rng: random.Random, dtype: str, count: int) -> Iterator[bytes]:
    """Random bits; tame values; half zeros; one bad value far behind; all bad; stretches."""
    item = ITEM[dtype]
    yield rng.randbytes(count * item)
    tame = bytearray((b"\x00" * (item - 1) + b"\x3c") * count)
    yield bytes(tame)
    zeros = bytearray(tame)
    for i in range(0, count, 2):
        zeros[i * item : (i + 1) * item] = bytes(item)
    yield bytes(zeros)
    if count:
        one = bytearray(tame)
        at = rng.randrange(count)
        one[at * item : (at + 1) * item] = b"\xff" * item
        yield bytes(one)
    yield b"\xff" * (count * item)
    # Long enough stretches of one kind for the kernels to expect more of it, and to be wrong.
    part = count // 4 * item
    yield b"\xff" * part + (b"\x01" + bytes(item - 1)) * (count // 4) + bytes(tame[: 2 * part])
    yield b"\x00" * (item - 1) * count + b"\x80" * count if item == 1 else bytes(count * item)


@pytest.mark.parametrize("dtype", sorted(ITEM))
def test_equal_to_the_reference(level: str, dtype: str) -> None:
    rng = random.Random(f"{level}{dtype}")
    lengths = [0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 255, 1000, 4096, 4097, 9001]
    for count in [*lengths, *(rng.randrange(3000) for _ in range(10))]:
        for data in kinds_of_data(rng, dtype, count):
            expected = facts_of(values_of(data, dtype), dtype)
            if dtype == "float4_e2m1fn_x2":
                expected["first_nonfinite"] = None
            same(scanned(data, dtype, offset=rng.randrange(64)), expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "float8_e5m2"])
def test_each_bit_pattern_of_the_exponent(level: str, dtype: str) -> None:
    item = ITEM[dtype]
    tops = (top.to_bytes(2, "little") for top in range(1 << 16)) if item > 1 else None
    if tops is None:
        data = bytes(range(256)) * 4
    else:
        data = b"".join(b"\x01" * (item - 2) + top for top in tops)
    same(scanned(data, dtype), facts_of(values_of(data, dtype), dtype))


def test_the_largest_magnitudes_of_integers(level: str) -> None:
    for bits in (8, 16, 32, 64):
        data = (-(1 << (bits - 1))).to_bytes(bits // 8, "little", signed=True)
        assert scanned(data * 100, f"int{bits}")["abs_max"] == float(1 << (bits - 1))
        top = ((1 << bits) - 1).to_bytes(bits // 8, "little")
        for data in (top * 128, top * 128 + bytes(1024)):  # no rest beside whole vectors
            found = scanned(data, f"uint{bits}")
            assert found["abs_max"] == found["abs_min_nonzero"] == float((1 << bits) - 1)


def test_threads_change_nothing(level: str) -> None:
    data = bytearray(random.Random(5).randbytes(4096)) * 2048  # 8 MiB
    for i in range(3, len(data), 4):
        data[i] &= 0x3F  # no NaN, no Inf
    data[5_000_003] = data[5_000_002] = 0xFF
    data[7_000_003] = data[7_000_002] = 0xFF
    room = (ctypes.c_char * len(data)).from_buffer(data)
    before = _scan.threads()
    found = []
    for count in (1, 2, 7):
        _scan.set_threads(count)
        shape = [len(data) // 4]
        result = _scan.scan_memory(ctypes.addressof(room), dtype="float32", shape=shape)
        found.append(fields(result))
    _scan.set_threads(before)
    assert found[0] == found[1] == found[2]
    assert found[0]["first_nonfinite"] == 1_250_000
    assert found[0]["nan_count"] == 2


def test_a_fork_has_its_own_threads() -> None:
    code = """
import ctypes, os
from postmortem import _scan
_scan.set_threads(4)
room = (ctypes.c_char * (16 << 20))()
scan = lambda: _scan.scan_memory(ctypes.addressof(room), dtype="float32", shape=[4 << 20])
assert scan().zero_count == 4 << 20
child = os.fork()
if child == 0:
    os._exit(0 if scan().zero_count == 4 << 20 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert scan().zero_count == 4 << 20
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_many_threads_scan_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    room = (ctypes.c_char * (8 << 20))()
    address = ctypes.addressof(room)

    def once(_: int) -> int:
        return _scan.scan_memory(address, dtype="bfloat16", shape=[4 << 20]).zero_count

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(once, range(40))) == {4 << 20}


@pytest.mark.parametrize("name", LEVELS)
def test_a_level_can_be_forced(name: str) -> None:
    code = "from postmortem import _scan; print(_scan.level())"
    done = execute(
        [sys.executable, "-c", code], env={**os.environ, "POSTMORTEM_SIMD": name}, check=True
    )
    assert done.stdout.strip() == name


def test_what_is_no_array_is_refused() -> None:
    for shape, strides in (([-1], None), ([1 << 62, 4], None), ([2, 2], [1])):
        with pytest.raises(ValueError, match="no array"):
            _scan.scan_memory(0, dtype="float32", shape=shape, strides=strides)
    with pytest.raises(ValueError, match="no memory"):
        _scan.scan_memory(0, dtype="float32", shape=[1])
    with pytest.raises(ValueError, match="no data type"):
        _scan.scan_memory(0, dtype="float7", shape=[])
    assert math.isnan(_scan.scan_memory(0, dtype="float32", shape=[0]).abs_min)
