"""Pickled dumps of the flight recorder are followed natively: the same as what Python reads."""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem import _native
from postmortem.errors import EvidenceError
from postmortem.readers.flight_recorder import read_recorder

_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
_SIZES = st.lists(st.lists(st.integers(0, 2**40), max_size=3), max_size=3)
_FRAME = st.fixed_dictionaries(
    {"name": _TEXT, "filename": _TEXT, "line": st.integers(0, 99_999)},
)
_ENTRY = st.fixed_dictionaries(
    {
        "process_group": st.tuples(_TEXT.filter(bool), _TEXT),
        "collective_seq_id": st.integers(0, 2**50),
        "p2p_seq_id": st.integers(0, 2**33),
        "profiling_name": st.sampled_from(["nccl:all_reduce", "gloo:barrier", "send", ""]),
        "input_sizes": _SIZES,
        "output_sizes": _SIZES,
        "input_dtypes": st.lists(st.sampled_from(["Float", "Half"]), max_size=2),
        "state": st.sampled_from(["scheduled", "started", "completed"]),
        "retired": st.booleans(),
        "is_p2p": st.booleans(),
        "frames": st.lists(_FRAME, max_size=4),
        "time_created_ns": st.integers(0, 2**62),
        "duration_ms": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
    }
)
_DUMP = st.fixed_dictionaries(
    {
        "version": st.sampled_from(["2.10", "1.1"]),
        "pg_config": st.dictionaries(
            _TEXT.filter(bool),
            st.fixed_dictionaries({"ranks": st.sampled_from(["[0, 1]", "[3]", "no list"])}),
            max_size=3,
        ),
        "entries": st.lists(_ENTRY, max_size=6),
    }
)


def python_only(data: bytes) -> Any:
    """Read a pickle with Python, and the dump as the JSON form of it is read."""
    return read_recorder(json.dumps(pickle.loads(data)).encode(), "fr_0")


@given(_DUMP, st.integers(2, 5), st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_same_as_python(dump: dict[str, Any], protocol: int, without_memo: bool) -> None:
    data = pickle.dumps(dump, protocol=protocol)
    if without_memo:
        data = pickletools.optimize(data)
    assert read_recorder(data, "fr_0") == python_only(data)


def entries(count: int, frames: int = 20) -> list[dict[str, Any]]:
    return [
        {
            "process_group": ("0", "default_pg"),
            "collective_seq_id": i,
            "profiling_name": "nccl:all_reduce",
            "input_sizes": [[1024, 1024]],
            "output_sizes": [[1024, 1024]],
            "input_dtypes": ["Float"],
            "state": "completed",
            "retired": True,
            "is_p2p": False,
            "frames": [
                {"name": f"f{k}", "filename": "/job/train.py", "line": k} for k in range(frames)
            ],
        }
        for i in range(count)
    ]


def test_what_calls_have_in_common_is_there_once() -> None:
    raw = _native.read_flight_recorder(pickle.dumps({"entries": entries(500)}))
    assert len(raw["calls"]) == 500
    assert len(raw["shapes"]) == len(raw["stacks"]) == 1
    assert len(raw["frames"]) == 20


def test_many_dumps_take_seconds_not_minutes() -> None:
    data = pickle.dumps({"version": "2.10", "entries": entries(2000)})
    began = time.process_time()
    assert len(read_recorder(data, "fr_0").calls) == 2000
    assert time.process_time() - began < 1.0  # 0.02 s on a quiet machine; followed in Python 0.5 s


@pytest.mark.parametrize("cut", [1, 2, 10, 100, 1000, -1])
def test_a_cut_dump_is_an_error(cut: int) -> None:
    data = pickle.dumps({"version": "2.10", "entries": entries(20)})
    with pytest.raises(EvidenceError, match=r"cannot be read: it is (cut off|damaged)"):
        read_recorder(data[:cut], "fr_0")


def bomb(levels: int) -> bytes:
    """Return a list of ten times a list of ten times … of a dump's entry: 10**levels of them."""
    body = io.BytesIO()
    body.write(b"\x80\x04}X\x07\x00\x00\x00entries")
    body.write(b"}X\x06\x00\x00\x00frames]s\x94")
    for level in range(levels):
        body.write(b"0](" + b"h" + bytes([level]))
        body.write((b"h" + bytes([level])) * 9 + b"e\x94")
    body.write(b"s.")
    return body.getvalue()


def test_a_bomb_of_shared_lists_does_not_unfold() -> None:
    raw = _native.read_flight_recorder(bomb(60))
    assert raw["calls"] == []


def test_a_shared_size_list_is_kept_once() -> None:
    row = list(range(64))
    shared = [row] * 64
    one = entries(1)[0] | {"input_sizes": shared, "output_sizes": shared}
    rows = [one | {"collective_seq_id": i} for i in range(5000)]
    raw = _native.read_flight_recorder(pickle.dumps({"entries": rows}))
    assert len(raw["calls"]) == 5000
    assert len(raw["shapes"]) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04(.",  # ends inside of a mark
        b"\x80\x04(((((((.",
        b"\x80\x04h\x05.",  # an entry of the memo that is not there
        b"\x80\x04Nr\xff\xff\xff\xff.",  # a memo of four billion entries
        b"\x80\x04}(Nu.",  # a key without a value
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",  # a text of 2**64 - 1 bytes
        b"\x80\x04\x8b\xff\xff\xff\x7f.",
        b"\x80\x04Na.",
        b"\x80\x04Q.",  # a persistent object
    ],
)
def test_damage_is_told(data: bytes) -> None:
    with pytest.raises(EvidenceError):
        _native.read_flight_recorder(data)
