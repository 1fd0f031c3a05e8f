"""What the dumps of a few ranks say together, one step of the reasoning at a time."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postmortem.diagnose.jam.decide import find_jam
from postmortem.diagnose.jam.jam import (
    CalledOther,
    CameLate,
    Differs,
    Disagrees,
    InRing,
    Inside,
    Jam,
    NeverCame,
    NoDump,
    NotBegun,
    Sign,
    StoppedNoting,
)
from postmortem.errors import EvidenceError
from postmortem.facts.confidence import Confidence
from postmortem.facts.flight_recorder import Recorder
from postmortem.readers.flight_recorder import read_recorder

START = 1_763_000_000_000_000_000


def entry(
    number: int,
    operation: str = "nccl:all_reduce",
    sizes: list[list[int]] | None = None,
    *,
    group: str = "0",
    state: str = "completed",
    dtype: str = "Float",
    p2p: bool = False,
    at: float = 0.0,
    retired: bool | None = None,
) -> dict[str, Any]:
    return {
        "process_group": (group, "default_pg" if group == "0" else "TP"),
        "collective_seq_id": 0 if p2p else number,
        "p2p_seq_id": number if p2p else 0,
        "profiling_name": operation,
        "time_created_ns": START + int(at * 1e9),
        "input_sizes": sizes or [[4]],
        "output_sizes": sizes or [[4]],
        "input_dtypes": [dtype],
        "state": state,
        "retired": state == "completed" if retired is None else retired,
        "is_p2p": p2p,
    }


def dump(entries: list[dict[str, Any]], groups: dict[str, str] | None = None) -> dict[str, Any]:
    config = {name: {"desc": "TP", "ranks": ranks} for name, ranks in (groups or {}).items()}
    return {"version": "2.10", "pg_config": config, "entries": entries}


def recorders(*dumps: dict[str, Any], written: float | None = None) -> list[Recorder]:
    return [
        read_recorder(pickle.dumps(one), f"nccl_trace_rank_{rank}", written=written)
        for rank, one in enumerate(dumps)
    ]


def jam_of(*dumps: dict[str, Any]) -> Jam:
    jam = find_jam(recorders(*dumps))
    assert jam is not None
    return jam


DONE = [entry(1), entry(2)]
WAITS = entry(3, state="started")


@pytest.mark.parametrize(
    ("odd", "differs"),
    [
        (entry(3, "nccl:broadcast", state="scheduled"), Differs.OPERATION),
        (entry(3, sizes=[[8]], state="started"), Differs.SIZES),
        (entry(3, dtype="Half", state="started"), Differs.DTYPE),
    ],
)
def test_one_calls_something_else(odd: dict[str, Any], differs: Differs) -> None:
    jam = jam_of(*[dump([*DONE, odd if rank == 2 else WAITS]) for rank in range(4)])
    (one,) = jam.culprits
    assert (one.rank, one.sure) == (2, Confidence.CERTAIN)
    assert isinstance(one.cause, CalledOther)
    assert one.cause.differs is differs


@pytest.mark.parametrize("operation", ["_all_gather_base", "_reduce_scatter_base", "all_gather"])
def test_sizes_of_gathering_are_compared(operation: str) -> None:
    rows = [
        entry(3, f"nccl:{operation}", [[8 + (rank == 1)]], state="started") for rank in range(4)
    ]
    jam = jam_of(*[dump([*DONE, row]) for row in rows])
    assert [one.rank for one in jam.culprits] == [1]


@pytest.mark.parametrize(
    "operation", ["all_to_all", "all_to_allv", "gather", "scatter", "ALLGATHER_coalesced"]
)
def test_own_sizes_may_differ(operation: str) -> None:
    rows = [entry(3, f"nccl:{operation}", [[rank + 1]], state="started") for rank in range(3)]
    jam = jam_of(*[dump([*DONE, row]) for row in rows])
    assert jam.culprits == ()
    assert {type(one.cause) for one in jam.candidates} == {Inside}


def test_two_against_two_is_nobody() -> None:
    other = entry(3, "nccl:broadcast", state="scheduled")
    jam = jam_of(*[dump([*DONE, row]) for row in (WAITS, WAITS, other, other)])
    assert jam.culprits == ()
    assert [one.rank for one in jam.candidates] == [0, 1, 2, 3]
    assert {type(one.cause) for one in jam.candidates} == {Disagrees}


def test_what_all_have_finished_did_no_harm() -> None:
    old = [entry(1, sizes=[[9]]), entry(2)]
    assert find_jam(recorders(dump(DONE), dump(old), dump(DONE))) is None


def test_who_never_came_and_who_waits_for_a_victim() -> None:
    # 1 never came to the group of two; 0 waits there; 2 and 3 wait for both
    groups = {"0": "[0, 1, 2, 3]", "1": "[0, 1]", "2": "[2, 3]"}
    inner = entry(1, group="1", state="scheduled")
    outer = entry(3, state="scheduled")
    jam = jam_of(
        dump([*DONE, inner], groups),
        dump(DONE, groups),
        dump([*DONE, entry(1, group="2"), outer], groups),
        dump([*DONE, entry(1, group="2"), outer], groups),
    )
    (one,) = jam.culprits
    assert one.rank == 1
    assert isinstance(one.cause, NeverCame)
    assert (jam.waiting, jam.explained) == (3, 3)
    assert one.holds_up == 3


def test_a_dump_without_entries_is_evidence() -> None:
    members = {"0": "[0, 1, 2]"}
    jam = jam_of(dump([WAITS], members), dump([], members), dump([WAITS], members))
    assert [(one.rank, type(one.cause)) for one in jam.culprits] == [(1, NeverCame)]


def test_counters_tell_of_groups_with_no_entry_left() -> None:
    def counted(entries: list[dict[str, Any]], enqueued: int) -> dict[str, Any]:
        status = {"0": {"last_enqueued_collective": enqueued, "last_completed_collective": 2}}
        rows = [{**row, "pg_id": 0} for row in entries]
        return {**dump(rows, {"0": "[0, 1, 2]"}), "pg_status": status}

    waits = entry(3, state="scheduled")
    jam = jam_of(counted([waits], 3), counted([waits], 3), counted([], 2))
    assert [one.rank for one in jam.culprits] == [2]
    # it has called number 3, by its counters: then it is inside like the others
    jam = jam_of(counted([waits], 3), counted([waits], 3), counted([], 3))
    assert jam.culprits == ()


def test_retired_without_an_end_is_open_with_nccl() -> None:
    """A call that was aborted is retired too."""
    gone = entry(3, state="started", retired=True)
    jam = jam_of(dump([*DONE, gone]), dump([*DONE, gone]), dump(DONE))
    assert [one.rank for one in jam.culprits] == [2]


def test_a_recorder_that_stopped_taking_note() -> None:
    still = [entry(n, state="scheduled") for n in (3, 4, 5)]
    done = [entry(n) for n in (1, 2, 3, 4, 5)]
    waits = entry(6, state="scheduled")
    jam = jam_of(dump([*done, waits]), dump([*DONE, *still]), dump([*done, waits]))
    (one,) = jam.culprits
    assert one.rank == 1
    assert one.cause == StoppedNoting(calls=3, finished_by=0)


def test_one_call_behind_is_no_lag() -> None:
    behind = [*DONE, entry(3, state="scheduled")]
    done = [*DONE, entry(3)]
    jam = find_jam(recorders(dump(done), dump(behind), dump(done)))
    assert jam is not None
    assert all(one.sure is Confidence.POSSIBLE for one in jam.culprits)


@pytest.mark.parametrize(("seconds", "names"), [(431, [1]), (3, [])])
def test_late(seconds: float, names: list[int]) -> None:
    rows = [entry(3, state="scheduled", at=seconds if rank == 1 else 0) for rank in range(4)]
    jam = jam_of(*[dump([*DONE, row]) for row in rows])
    assert [one.rank for one in jam.culprits] == names
    if names:
        assert isinstance(jam.culprits[0].cause, CameLate)
        assert jam.culprits[0].cause.seconds == pytest.approx(seconds)


def test_whose_device_has_not_begun() -> None:
    rows = [entry(3, state="scheduled" if rank == 1 else "started") for rank in range(4)]
    jam = jam_of(*[dump([*DONE, row]) for row in rows])
    assert [(one.rank, type(one.cause)) for one in jam.culprits] == [(1, NotBegun)]


def test_a_rank_without_a_dump() -> None:
    members = {"0": "[0, 1, 2, 3]"}
    jam = jam_of(*[dump([*DONE, WAITS], members) for _ in range(3)])
    assert [(one.rank, type(one.cause)) for one in jam.culprits] == [(3, NoDump)]
    assert jam.unseen == 1
    # of two, either may be the one
    jam = jam_of(*[dump([*DONE, WAITS], members) for _ in range(2)])
    assert jam.culprits == ()
    assert [one.rank for one in jam.candidates] == [2, 3]


def test_the_number_of_ranks_tells_of_those_without_a_dump() -> None:
    gloo = [entry(1, "gloo:all_reduce", state="scheduled", retired=False)]
    dumps = recorders(dump(gloo), dump(gloo), dump(gloo))
    jam = find_jam(dumps, world=4)
    assert jam is not None
    assert [one.rank for one in jam.culprits] == [3]


def test_a_receive_waits_for_its_sender() -> None:
    groups = {"0": "[4, 0, 1]"}  # places are those of the list, not of the ranks in order
    receive = entry(1, "nccl:recv 1<-2", p2p=True, state="scheduled")
    jam = jam_of(dump([receive], groups), dump([], groups))
    assert [one.rank for one in jam.culprits] == [1]


def test_a_ring_is_undecided() -> None:
    groups = {"0": "[0, 1]", "1": "[0, 1]"}
    jam = jam_of(
        dump([*DONE, WAITS], groups), dump([*DONE, entry(1, group="1", state="started")], groups)
    )
    assert jam.culprits == ()
    assert {type(one.cause) for one in jam.candidates} == {InRing}


def test_groups_of_one_name_and_other_members_are_two() -> None:
    jam = find_jam(
        recorders(
            dump([entry(1, group="1", state="started")], {"1": "[0, 1]"}),
            dump([entry(1, group="1", state="started")], {"1": "[0, 1]"}),
            dump([], {"1": "[2, 3]"}),
        )
    )
    assert jam is not None
    assert jam.culprits == ()


@pytest.mark.parametrize(
    ("written", "sign"), [(3.0, Sign.AGAINST), (60.0, Sign.SEEN), (-5.0, Sign.UNKNOWN)]
)
def test_a_sign_of_a_hang(written: float, sign: Sign) -> None:
    dumps = recorders(dump([*DONE, WAITS]), dump(DONE), written=START / 1e9 + written)
    jam = find_jam(dumps)
    assert jam is not None
    assert jam.sign is sign
    over = find_jam(dumps, went_on=True)
    assert over is not None
    assert over.sign is Sign.AGAINST
    told = find_jam(dumps, timed_out="rank0.log:7 reports a time-out")
    assert told is not None
    assert told.sign is Sign.SEEN


def test_a_call_that_gloo_gave_up_is_a_sign() -> None:
    gave_up = entry(1, "gloo:all_reduce", state="scheduled", retired=True)
    jam = jam_of(dump([gave_up]), dump([]), dump([gave_up]))
    assert [one.rank for one in jam.culprits] == [1]
    assert jam.sign is Sign.SEEN


@pytest.mark.parametrize(("written", "ranks"), [(1.5, []), (9.0, [1])])
def test_a_dump_says_nothing_of_calls_behind_it(written: float, ranks: list[int]) -> None:
    ended = [entry(n, "gloo:all_reduce", state="scheduled", retired=True, at=n) for n in (1, 2)]
    jam = find_jam(recorders(dump(ended), dump(ended[:1]), written=START / 1e9 + written))
    assert [one.rank for one in (jam.culprits if jam else ())] == ranks


def test_a_rank_that_its_group_does_not_list() -> None:
    """Crafted: its calls are of no group, and nothing breaks."""
    jam = find_jam(recorders(dump([WAITS], {"0": "[7, 8]"}), dump([WAITS], {"0": "[0, 1]"})))
    assert jam is not None


_TEXT = st.sampled_from(["0", "1", "", "nccl:all_reduce", "send 0->9", "recv 1<-0", "TP"])
_ROW = st.fixed_dictionaries(
    {
        "process_group": st.tuples(_TEXT, _TEXT),
        "collective_seq_id": st.integers(-3, 6),
        "p2p_seq_id": st.integers(-3, 6),
        "pg_id": st.integers(-1, 2),
        "profiling_name": st.sampled_from(
            ["nccl:all_reduce", "gloo:barrier", "nccl:send 0->1", "nccl:recv 1<-0", "mpi:x", ""]
        ),
        "state": st.sampled_from(["scheduled", "started", "completed", ""]),
        "retired": st.booleans(),
        "is_p2p": st.booleans(),
        "time_created_ns": st.integers(-(2**62), 2**62),
        "timeout_ms": st.integers(-1, 2**40),
    }
)
_COUNTERS = st.fixed_dictionaries(
    {
        "last_enqueued_collective": st.integers(-3, 9),
        "last_completed_collective": st.integers(-3, 9),
    }
)
_DUMP = st.fixed_dictionaries(
    {
        "pg_config": st.dictionaries(
            _TEXT,
            st.fixed_dictionaries(
                {"ranks": st.sampled_from(["[0, 1, 2]", "[1, 0]", "[0, 0, 9]", "[]", "[-1, 5]"])}
            ),
            max_size=3,
        ),
        "pg_status": st.dictionaries(st.sampled_from(["0", "1", "2", "x"]), _COUNTERS, max_size=3),
        "entries": st.lists(_ROW, max_size=8),
    }
)


@given(st.lists(_DUMP, min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_any_dumps_are_decided_alike_in_any_order(dumps: list[dict[str, Any]]) -> None:
    read = recorders(*dumps)
    jam = find_jam(read)
    assert find_jam(list(reversed(read))) == jam
    if jam is not None:
        assert 0 <= jam.explained <= jam.waiting <= jam.seen
        assert all(one.rank >= 0 for one in (*jam.culprits, *jam.candidates))


@given(st.integers(0, 600), st.binary(max_size=8), st.booleans())
@settings(max_examples=200, deadline=None)
def test_damage_is_an_error_or_fewer_calls(at: int, new: bytes, as_json: bool) -> None:
    whole = dump([*DONE, WAITS])
    data = json.dumps(whole).encode() if as_json else pickle.dumps(whole)
    try:
        one = read_recorder(data[:at] + new + data[at + len(new) :], "fr_0")
    except EvidenceError:
        return
    find_jam([one, *recorders(dump([]), whole)[1:]])
