"""Who holds up a job, on generated jobs of which it is known who was struck."""

import pickle
import random

import pytest

from builders.jams import KINDS, Job, Layout, jammed
from postmortem.diagnose.jam.decide import find_jam
from postmortem.diagnose.jam.jam import CalledOther, CameLate, Jam, NeverCame, NoDump, StoppedNoting
from postmortem.facts.confidence import Confidence
from postmortem.facts.flight_recorder import Recorder
from postmortem.readers.flight_recorder import Shared, read_recorder

GRID = Layout(4, 4, 4)
FOUR = Layout(4, 2, 4, 2)
"""With expert parallel groups, in whose all_to_all sizes are each rank's own."""
PAIRS = Layout(2, 2, 4)
"""In a tensor group of two no side is the larger one."""


def recorders(job: Job, lost: tuple[int, ...] = (), *, active: bool = True) -> list[Recorder]:
    shared = Shared()
    return [
        read_recorder(pickle.dumps(dump), f"trace_rank_{rank}", shared)
        for rank, dump in job.dumps(lost=lost, active=active).items()
    ]


def found(job: Job, lost: tuple[int, ...] = (), *, active: bool = True) -> Jam:
    jam = find_jam(recorders(job, lost, active=active))
    assert jam is not None
    return jam


def named(jam: Jam) -> set[int]:
    return {one.rank for one in jam.culprits}


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("layout", [GRID, FOUR], ids=["3-D", "4-D"])
@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("stuck", NeverCame),
        ("crashed", NoDump),
        ("device", StoppedNoting),
        ("late", CameLate),
        ("operation", CalledOther),
        ("size", CalledOther),
        ("dtype", CalledOther),
    ],
)
def test_one_culprit(layout: Layout, kind: str, cause: type, active: bool) -> None:
    job = jammed(layout, {21: kind}, 1)
    assert job.jammed
    jam = found(job, active=active)
    assert named(jam) == {21}
    assert isinstance(jam.culprits[0].cause, cause)
    assert jam.explained == jam.waiting
    assert jam.culprits[0].holds_up > 0


@pytest.mark.parametrize("seed", range(24))
def test_nobody_else_is_blamed(seed: int) -> None:
    """Up to three culprits of any kind, some victims' dumps lost: all who are named are guilty."""
    chance = random.Random(seed)
    ranks = chance.sample(range(GRID.size), chance.randint(1, 3))
    job = jammed(GRID, {rank: chance.choice(KINDS) for rank in ranks}, seed)
    if not job.jammed:
        return
    victims = [rank for rank in range(GRID.size) if rank not in ranks]
    lost = tuple(chance.sample(victims, chance.choice((0, 0, 1, 3))))
    jam = find_jam(recorders(job, lost, active=chance.random() < 0.5))
    assert jam is not None
    assert named(jam) <= job.allowed()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    "kinds", [("stuck", "stuck"), ("size", "stuck"), ("crashed", "stuck")], ids="+".join
)
def test_all_whom_somebody_lacks_are_named(kinds: tuple[str, ...], seed: int) -> None:
    ranks = random.Random(seed).sample(range(GRID.size), len(kinds))
    faults = dict(zip(ranks, kinds, strict=True))
    job = jammed(GRID, faults, seed)
    jam = found(job)
    crashed = {rank for rank, kind in faults.items() if kind == "crashed"}
    assert job.needed() - crashed <= named(jam) <= job.allowed()
    # of who left no dump it may not be known whether it waits for another culprit
    assert job.needed() <= named(jam) | {one.rank for one in jam.candidates}
    assert jam.explained == jam.waiting


def test_in_groups_of_two_most_are_named_and_nobody_wrong() -> None:
    right = 0
    for seed in range(12):
        kind = ("stuck", "size", "dtype", "crashed")[seed % 4]
        job = jammed(PAIRS, {seed: kind}, seed)
        jam = found(job, active=seed % 2 == 0)
        assert named(jam) <= {seed}
        right += named(jam) == {seed}
    assert right >= 10


def test_a_network_that_hangs_blames_nobody() -> None:
    job = Job(GRID, 5)
    job.broken.add(GRID.of[0]["TP"])
    job.run()
    jam = found(job)
    assert jam.culprits == ()
    assert any(set(one.ranks) == set(GRID.groups[GRID.of[0]["TP"]][1]) for one in jam.unended)
    assert jam.explained == jam.waiting


def test_a_whole_group_that_crashed_is_blamed_together() -> None:
    members = GRID.groups[GRID.of[20]["TP"]][1]
    jam = found(jammed(GRID, dict.fromkeys(members, "crashed"), 2))
    assert named(jam) <= set(members)
    assert named(jam) | {one.rank for one in jam.candidates} >= set(members)


def test_the_order_of_the_dumps_changes_nothing() -> None:
    dumps = recorders(jammed(GRID, {9: "stuck", 14: "size"}, 4))
    mixed = random.Random(1).sample(dumps, len(dumps))
    assert find_jam(mixed) == find_jam(dumps)


def test_without_a_sister_group_two_ranks_are_candidates() -> None:
    lone = Layout(2, 1, 1)
    jam = found(jammed(lone, {1: "operation"}, 3), active=False)
    assert jam.culprits == ()
    assert {one.rank for one in jam.candidates} == {0, 1}
    assert all(one.sure is Confidence.POSSIBLE for one in jam.candidates)


def test_a_job_that_has_ended_waits_for_nobody() -> None:
    job = Job(PAIRS, 1)
    job.run()
    assert not job.jammed
    assert find_jam(recorders(job, active=False)) is None
    assert find_jam(recorders(job)) is None
