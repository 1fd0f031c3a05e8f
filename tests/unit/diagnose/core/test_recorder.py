"""Where the flight recorders of all ranks part."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.diagnose.ranks.deciding.recorder import Differs, compare
from postmortem.errors import EvidenceError
from postmortem.facts.flight_recorder import Recorder
from postmortem.readers.flight_recorder import looks_like_recorder, rank_of, read_recorder


def entry(
    sequence: int,
    operation: str = "nccl:all_reduce",
    sizes: list[list[int]] | None = None,
    *,
    group: str = "0",
    state: str = "completed",
    dtype: str = "Float",
    p2p: bool = False,
) -> dict[str, Any]:
    return {
        "process_group": (group, "default_pg"),
        "collective_seq_id": 0 if p2p else sequence,
        "p2p_seq_id": sequence if p2p else 0,
        "profiling_name": operation,
        "input_sizes": sizes or [[4]],
        "output_sizes": sizes or [[4]],
        "input_dtypes": [dtype],
        "state": state,
        "retired": state == "completed",
        "is_p2p": p2p,
        "frames": [
            {
                "name": "all_reduce",
                "filename": "/x/torch/distributed/distributed_c10d.py",
                "line": 9,
            },
            {"name": "step", "filename": "/job/train.py", "line": 10 + sequence},
        ],
    }


def dump(entries: list[dict[str, Any]], groups: dict[str, str] | None = None) -> dict[str, Any]:
    config = {name: {"name": name, "ranks": ranks} for name, ranks in (groups or {}).items()}
    return {"version": "2.10", "pg_config": config, "entries": entries}


def recorders(*dumps: dict[str, Any], as_json: bool = False) -> list[Recorder]:
    write = (lambda d: json.dumps(d).encode()) if as_json else pickle.dumps
    return [read_recorder(write(d), f"nccl_trace_rank_{rank}") for rank, d in enumerate(dumps)]


DONE = [entry(1), entry(2)]
WAITS = entry(3, state="started")


@pytest.mark.parametrize("as_json", [False, True])
def test_one_calls_something_else(as_json: bool) -> None:
    other = entry(3, "nccl:broadcast", state="scheduled")
    found = compare(
        recorders(
            *[dump([*DONE, other if rank == 2 else WAITS]) for rank in range(4)], as_json=as_json
        )
    )
    assert found is not None
    assert (found.how, found.sequence, found.odd) == (Differs.OPERATION, 3, (2,))
    call = found.call(2)
    assert call is not None
    assert call.operation == "broadcast"
    assert call.site is not None
    assert (call.site.function, call.site.line) == ("step", 13)


def test_sizes_and_types() -> None:
    wide = entry(3, sizes=[[8]], state="started")
    found = compare(recorders(*[dump([*DONE, wide if rank == 0 else WAITS]) for rank in range(3)]))
    assert found is not None
    assert (found.how, found.odd) == (Differs.SIZES, (0,))
    half = entry(3, dtype="Half", state="started")
    found = compare(recorders(*[dump([*DONE, half if rank == 1 else WAITS]) for rank in range(3)]))
    assert found is not None
    assert (found.how, found.odd) == (Differs.DTYPE, (1,))


def test_own_sizes_are_allowed_to_differ() -> None:
    rows = [entry(3, "nccl:all_to_all", [[rank + 1]], state="started") for rank in range(3)]
    assert compare(recorders(*[dump([*DONE, row]) for row in rows])) is None


def test_behind_and_ahead() -> None:
    found = compare(recorders(dump(DONE), dump([*DONE, WAITS]), dump([*DONE, WAITS])))
    assert found is not None
    assert (found.how, found.odd, found.most) == (Differs.BEHIND, (0,), (1, 2))
    found = compare(recorders(dump(DONE), dump(DONE), dump([*DONE, WAITS])))
    assert found is not None
    assert (found.how, found.odd, found.most) == (Differs.AHEAD, (2,), (0, 1))


def test_two_against_two_is_nobody() -> None:
    other = entry(3, "nccl:broadcast", state="scheduled")
    rows = [WAITS, WAITS, other, other]
    found = compare(recorders(*[dump([*DONE, row]) for row in rows]))
    assert found is not None
    assert (found.odd, found.most) == ((0, 1, 2, 3), ())


def test_what_all_have_finished_did_no_harm() -> None:
    old = [entry(1, sizes=[[9]]), entry(2)]
    assert compare(recorders(dump(DONE), dump(old), dump(DONE))) is None


def test_groups_have_their_own_members() -> None:
    # ranks 0 and 1 are the tensor group "1"; rank 2 is in no group but the default one
    groups = {"0": "[0, 1, 2]", "1": "[0, 1]"}
    inner = entry(1, group="1", state="started")
    found = compare(
        recorders(dump([*DONE, inner], groups), dump([*DONE], groups), dump([*DONE, WAITS], groups))
    )
    assert found is not None
    assert found.group in ("0", "1")
    alone = compare(
        recorders(dump([*DONE, inner], groups), dump([*DONE, inner], groups), dump(DONE))
    )
    assert alone is None


def test_a_mismatch_explains_a_group_that_only_waits() -> None:
    groups = {"0": "[0, 1, 2]", "1": "[0, 1, 2]"}
    odd = entry(1, "nccl:broadcast", group="1", state="started")
    even = entry(1, group="1", state="started")
    found = compare(
        recorders(
            dump([*DONE, even], groups),
            dump([*DONE, even], groups),
            dump([*DONE, odd, WAITS], groups),
        )
    )
    assert found is not None
    assert (found.how, found.group, found.odd) == (Differs.OPERATION, "1", (2,))


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("/tmp/nccl_trace_rank_12", 12),
        ("comm_lib_trace_rank_3", 3),
        ("fr_0", 0),
        ("json_7.json", 7),
        ("dump", None),
    ],
)
def test_whose_dump(name: str, rank: int | None) -> None:
    assert rank_of(name) == rank


class Harmful:
    """Would write a file if it were unpickled."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self._path),))


def test_nothing_in_a_dump_is_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    data = pickle.dumps({**dump(DONE), "entries": [Harmful(str(trap)), entry(1)]})
    assert looks_like_recorder(data)
    assert len(read_recorder(data, "fr_0").calls) == 1
    assert not trap.exists()


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x04", b"{", b"[]", b'{"pg_config": {}}', b"\x80\x04N."]
)
def test_what_is_no_dump(data: bytes) -> None:
    with pytest.raises(EvidenceError):
        read_recorder(data, "fr_0")


@given(st.integers(0, 600), st.binary(max_size=8), st.booleans())
@settings(max_examples=300, deadline=None)
def test_damage_is_an_error_or_fewer_calls(at: int, new: bytes, as_json: bool) -> None:
    whole = dump([*DONE, WAITS])
    data = json.dumps(whole).encode() if as_json else pickle.dumps(whole)
    try:
        one = read_recorder(data[:at] + new + data[at + len(new) :], "fr_0")
    except EvidenceError:
        return
    compare([one, *recorders(whole)])
