"""Ranks in the same place, the tree of all, and whose dump a file is."""

import pytest

from postmortem.diagnose.stacks.classes import classes, tree
from postmortem.facts.rank_sets import intervals, rank_words
from postmortem.facts.stackdumps import Doing, RankStack, StackDump
from postmortem.facts.threads import Frame, Thread
from postmortem.readers.stackdumps.labels import rank_stacks


def python(function: str, file: str = "train.py", line: int = 1) -> Frame:
    return Frame(function, kind="python", file=file, line=line)


def native(function: str, module: str = "libc.so.6") -> Frame:
    return Frame(function, module=module)


COLLECTIVE = python("all_reduce", "torch/distributed/distributed_c10d.py", 3252)
IN_STEP = (COLLECTIVE, python("step", line=31), python("<module>", line=90))
STUCK = (
    native("__futex_abstimed_wait_common"),
    native("lock_PyThread_acquire_lock", "libpython3.11.so.1.0"),
    python("load", line=12),
    python("<module>", line=90),
)


def stack(rank: int, frames: tuple[Frame, ...], *, running: bool | None = None) -> RankStack:
    return RankStack(
        label=f"rank {rank}",
        rank=rank,
        host=None,
        where=f"rank{rank}.txt",
        thread=Thread(tid=rank, frames=frames),
        is_running=running,
    )


def test_the_odd_rank_comes_first() -> None:
    found = classes([stack(rank, STUCK if rank == 5 else IN_STEP) for rank in range(8)])
    assert [([m.rank for m in one.members], one.doing) for one in found] == [
        ([5], Doing.LOCK),
        ([0, 1, 2, 3, 4, 6, 7], Doing.COLLECTIVE),
    ]
    assert found.moved == ()


def test_how_far_inside_a_collective_does_not_count() -> None:
    inner = (native("read"), native("c10d::ProcessGroupGloo::AsyncWork::execute", "libtorch.so"))
    found = classes([stack(0, IN_STEP), stack(1, (*inner, *IN_STEP))])
    assert len(found) == 1


def test_a_backward_pass_that_waits_for_its_buckets_is_in_a_collective() -> None:
    waits = (native("c10d::Reducer::finalize_backward", "libtorch.so"), python("backward"))
    (found,) = classes([stack(0, waits)])
    assert found.doing is Doing.COLLECTIVE


def test_two_collectives_are_two_places() -> None:
    other = (python("broadcast", COLLECTIVE.file or "", 3151), python("step", line=33), IN_STEP[2])
    assert len(classes([stack(0, IN_STEP), stack(1, other)])) == 2


def test_who_moves_is_not_stuck() -> None:
    moved = (native("read"), *IN_STEP)
    found = classes([stack(0, STUCK), stack(1, STUCK), stack(0, moved), stack(1, STUCK)])
    assert found.moved == ("rank 0",)
    assert found.samples == 2
    assert [[m.rank for m in one.members] for one in found] == [[0], [1]]


@pytest.mark.parametrize(
    ("frames", "running", "expected"),
    [
        (STUCK, None, Doing.LOCK),
        (STUCK, True, Doing.OTHER),
        ((native("wait4"), python("join")), None, Doing.WAIT),
        ((native("cudaStreamSynchronize", "libcudart.so"), python("step")), None, Doing.DEVICE),
        ((python("synchronize", "torch/cuda/__init__.py"), python("step")), None, Doing.DEVICE),
        ((python("f"), python("_load", "<frozen importlib._bootstrap>")), True, Doing.IMPORT),
        ((python("forward"),), None, Doing.OTHER),
        ((native("ncclAllReduce", "libnccl.so.2"),), None, Doing.COLLECTIVE),
        ((native("PMPI_Allreduce", "libmpi.so"),), None, Doing.COLLECTIVE),
    ],
)
def test_doing(frames: tuple[Frame, ...], running: bool | None, expected: Doing) -> None:
    (one,) = classes([stack(0, frames, running=running)])
    assert one.doing is expected


def test_tree() -> None:
    lines = tree(classes([stack(rank, STUCK if rank == 2 else IN_STEP) for rank in range(4)]))
    assert [(line.depth, line.call, line.ranks) for line in lines] == [
        (0, "<module> (train.py:90)", (0, 1, 2, 3)),
        (1, "step (train.py:31) → all_reduce (distributed_c10d.py:3252)", (0, 1, 3)),
        (1, "load (train.py:12)", (2,)),
    ]


def test_ranks_in_words() -> None:
    assert intervals([3, 1, 2, 9, 1]) == ((1, 3), (9, 9))
    assert rank_words([0, 1, 2, 4]) == "0-2, 4"
    assert rank_words(range(0, 40, 2), most=2) == "0, 2 and 18 more"


def dump(rank: int | None = None) -> StackDump:
    return StackDump(tool="py-spy", threads=(Thread(tid=1, frames=IN_STEP),), main=0, rank=rank)


@pytest.mark.parametrize(
    ("paths", "ranks"),
    [
        (["d/rank0.txt", "d/rank1.txt", "d/rank1_child77.txt"], [0, 1]),
        (["d/pyspy_0.txt", "d/pyspy_3.txt"], [0, 3]),
        (["d/spy.0", "d/spy.3", "d/spy.3.child0"], [0, 3]),
        (["a/rank_2/stack.txt", "a/rank_10/stack.txt"], [2, 10]),
        (["host7-rank12.json", "host8-rank4.json"], [12, 4]),
        (["2026-11-21.txt", "2026-10-21.txt"], [None, None]),
        (["a/attempt_0/1/stderr.log", "a/attempt_0/3/stderr.log"], [1, 3]),
        (["a/attempt_0/1/stderr.log", "a/attempt_1/1/stderr.log"], [None, None]),
        (["crank5.txt"], [None]),
    ],
)
def test_whose_dump_it_is(paths: list[str], ranks: list[int | None]) -> None:
    found = rank_stacks([(path, [dump()]) for path in paths])
    if paths == ["crank5.txt"]:
        assert [one.rank for one in found] == [5]  # its only number
        return
    assert [one.rank for one in found] == ranks


def test_the_dump_itself_knows_best() -> None:
    (found,) = rank_stacks([("rank3.txt", [dump(rank=8)])])
    assert (found.rank, found.label) == (8, "rank 8")


def of_process(
    pid: int, command: str, frames: tuple[Frame, ...] = IN_STEP, parent: int | None = None
) -> StackDump:
    main = Thread(tid=pid, frames=frames)
    return StackDump("py-spy", (main,), main=0, pid=pid, parent=parent, command=command)


def test_a_file_may_hold_all_processes_of_a_job() -> None:
    in_worker = (python("_worker_loop", "/x/torch/utils/data/_utils/worker.py"),)
    job = [
        of_process(10, "/usr/bin/python /x/bin/torchrun --nproc-per-node 2 train.py"),
        of_process(11, "python -u train.py", parent=10),
        of_process(12, "python -u train.py", parent=10),
        of_process(13, "python -u train.py", in_worker, parent=11),
        of_process(14, "python -c from multiprocessing.resource_tracker import main", parent=11),
        of_process(15, "sh -c nvidia-smi", parent=12),
    ]
    found = rank_stacks([("stacks.txt", job)])
    assert [one.label for one in found] == ["pid 11", "pid 12"]
    # What one loop over pids has written, with the rank among the arguments.
    found = rank_stacks([("all.txt", [of_process(20 + r, f"p --rank {r}") for r in (0, 1)])])
    assert [(one.label, one.rank) for one in found] == [("rank 0", 0), ("rank 1", 1)]
    # The file of one rank: the others are its children, whether the dump says so or not.
    found = rank_stacks([("rank4.txt", [of_process(5, "python t.py"), of_process(6, "sh")])])
    assert [(one.label, one.thread.tid) for one in found] == [("rank 4", 5)]
