"""Pickled dumps of the flight recorder are followed natively: the same as what Python reads."""

import io
import json
import pickle
import pickletools
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.prose import Prose
from postmortem import _native
from postmortem.errors import EvidenceError
from postmortem.facts.flight_recorder import Recorder
from postmortem.readers.flight_recorder import looks_like_recorder, rank_of, read_recorder
from postmortem.readers.ranklogs.hung import read_recorders

_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
_SIZES = st.lists(st.lists(st.integers(0, 2**40), max_size=3), max_size=3)
_FRAME = st.fixed_dictionaries({"name": _TEXT, "filename": _TEXT, "line": st.integers(0, 99_999)})
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
        "pg_id": st.integers(0, 5),
        "timeout_ms": st.integers(1, 2**40),
        "time_created_ns": st.integers(0, 2**62),
        "time_discovered_started_ns": st.one_of(st.none(), st.integers(1, 2**62)),
        "duration_ms": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
    }
)
MEMBERS = {"[0, 1]": (0, 1), "[3]": (3,), "[5, 2, 4]": (5, 2, 4), "[1, 1]": (1,), "no list": ()}
"""As a dump writes them, and what that means: the order is the group's own."""
_DUMP = st.fixed_dictionaries(
    {
        "version": st.sampled_from(["2.10", "1.1"]),
        "pg_config": st.dictionaries(
            _TEXT.filter(bool),
            st.fixed_dictionaries({"ranks": st.sampled_from(list(MEMBERS)), "desc": _TEXT}),
            max_size=3,
        ),
        "pg_status": st.dictionaries(
            st.integers(0, 9).map(str),
            st.fixed_dictionaries(
                {
                    "last_enqueued_collective": st.integers(-1, 2**40),
                    "last_started_collective": st.integers(-1, 2**40),
                    "last_completed_collective": st.integers(-1, 2**40),
                }
            ),
            max_size=3,
        ),
        "entries": st.lists(_ENTRY, max_size=6),
    }
)


def in_json(data: bytes) -> Any:
    """Read a pickle with Python, and the same dump in JSON."""
    return read_recorder(json.dumps(pickle.loads(data)).encode(), "fr_0")


@given(_DUMP, st.integers(2, 5), st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_same_as_in_json(dump: dict[str, Any], protocol: int, without_memo: bool) -> None:
    data = pickle.dumps(dump, protocol=protocol)
    if without_memo:
        data = pickletools.optimize(data)
    one = read_recorder(data, "fr_0")
    assert one == in_json(data)
    assert_says(one, dump)


def assert_says(one: Recorder, dump: dict[str, Any]) -> None:
    """Compare a dump that was read with what was written."""
    rows = dump["entries"]
    assert list(one.created) == [row["time_created_ns"] for row in rows]
    assert list(one.started) == [row["time_discovered_started_ns"] or 0 for row in rows]
    for (number, shape), row in zip(one.rows(), rows, strict=True):
        assert number == row["p2p_seq_id" if row["is_p2p"] else "collective_seq_id"]
        assert shape.group_number == row["pg_id"]
        assert (shape.state, shape.retired) == (row["state"], row["retired"])
        assert shape.timeout_ms == row["timeout_ms"]
        assert [list(size) for size in shape.input_sizes] == row["input_sizes"]
        assert [frame.line for frame in shape.frames] == [frame["line"] for frame in row["frames"]]
    listed = {name: about for name, about in dump["pg_config"].items() if "ranks" in about}
    assert {group.name: group.members for group in one.groups} == {
        name: MEMBERS[about["ranks"]] for name, about in listed.items()
    }
    assert {row.group_number: (row.enqueued, row.completed) for row in one.status} == {
        int(number): (row["last_enqueued_collective"], row["last_completed_collective"])
        for number, row in dump["pg_status"].items()
    }


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
    assert len(raw["numbers"]) == 500 * 8
    assert len(raw["shapes"]) == len(raw["stacks"]) == 1
    assert len(raw["frames"]) == 20


def test_many_dumps_take_seconds_not_minutes() -> None:
    data = pickle.dumps({"version": "2.10", "entries": entries(2000)})
    began = time.process_time()
    assert read_recorder(data, "fr_0").calls == 2000
    assert time.process_time() - began < 1.0  # 0.02 s on a quiet machine; followed in Python 0.5 s


@pytest.mark.parametrize("cut", [1, 2, 10, 100, 1000, -1])
def test_a_cut_dump_is_an_error(cut: int, prose: Prose) -> None:
    data = pickle.dumps({"version": "2.10", "entries": entries(20)})
    with pytest.raises(EvidenceError) as refused:
        read_recorder(data[:cut], "fr_0")
    prose(refused.value)


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
    assert raw["numbers"] == b""


def test_a_shared_size_list_is_kept_once() -> None:
    row = list(range(64))
    shared = [row] * 64
    one = entries(1)[0] | {"input_sizes": shared, "output_sizes": shared}
    rows = [one | {"collective_seq_id": i} for i in range(5000)]
    raw = _native.read_flight_recorder(pickle.dumps({"entries": rows}))
    assert len(raw["numbers"]) == 500 * 80
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


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("/tmp/nccl_trace_rank_12", 12),
        ("comm_lib_trace_rank_3", 3),
        ("fr_0", 0),
        ("json_7.json", 7),
        ("/dumps/fr_node07_12", 12),
        ("/dumps/nccl_trace_gpu3.cluster.example_12", 12),
        ("/dumps/node9_rank_4.pkl", 4),
        ("dump", None),
    ],
)
def test_whose_dump(name: str, rank: int | None) -> None:
    assert rank_of(name) == rank


def test_hosts_in_the_names_of_dumps(tmp_path: Path) -> None:
    data = pickle.dumps({"version": "2.10", "entries": entries(1)})
    names = [f"fr_node{rank // 2}.cluster_{rank}" for rank in range(4)]
    for name in names:
        (tmp_path / name).write_bytes(data)
    read = read_recorders([str(tmp_path / name) for name in names], [], [])
    hosts = {one.rank: one.host for one in read}
    assert hosts == {0: "node0.cluster", 1: "node0.cluster", 2: "node1.cluster", 3: "node1.cluster"}
    read = read_recorders([str(tmp_path / name) for name in names[:2]], [], [])
    assert [one.host for one in read] == [None, None]


class Harmful:
    """Would write a file if it were unpickled."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self._path),))


def test_nothing_in_a_dump_is_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    data = pickle.dumps({"version": "2.10", "entries": [Harmful(str(trap)), *entries(1)]})
    assert looks_like_recorder(data)
    assert read_recorder(data, "fr_0").calls == 1
    assert not trap.exists()


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x04", b"{", b"[]", b'{"pg_config": {}}', b"\x80\x04N.", b"[" * 100_000]
)
def test_what_is_no_dump(data: bytes) -> None:
    with pytest.raises(EvidenceError):
        read_recorder(data, "fr_0")
