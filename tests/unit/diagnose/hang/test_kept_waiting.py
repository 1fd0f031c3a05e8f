"""What keeps a live rank waiting that holds up the others, and whose answer it waits for."""

import pytest

from postmortem.diagnose.hang.holding import holder_up
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.rule import load, run
from postmortem.diagnose.stacks.classes import classes
from postmortem.facts.live import LiveJob, LiveProcess, Motion, Reading, SystemCall, Task
from postmortem.facts.stackdumps import RankStack
from postmortem.facts.threads import Frame, Thread, Threads, Wait
from postmortem.records import replace
from postmortem.report.model import Diagnosis

RULES = load("hang")


def python(*places: tuple[str, str]) -> tuple[Frame, ...]:
    return tuple(Frame(name, "python", file=file, line=7) for name, file in places)


OWN = ("step", "/job/train.py")
POOL = ("ApplyResult.get", "/lib/python3.11/multiprocessing/pool.py")
WORKER = ("worker", "/lib/python3.11/multiprocessing/pool.py")
COLLECTIVE = python(("barrier", "/x/site-packages/torch/distributed/distributed_c10d.py"), OWN)


def process(pid: int, *stacks: tuple[Frame, ...], call: SystemCall | None = None) -> LiveProcess:
    threads = tuple(Thread(tid=pid + i, frames=one) for i, one in enumerate(stacks))
    return LiveProcess(
        pid=pid,
        ppid=1,
        state="S",
        user="u",
        argv=("python",),
        label=f"rank {pid // 100}",
        reading=Reading("native", "own reader"),
        threads=Threads(threads, pid),
        tasks=(Task(pid, "python", "S", None, call),),
        rank=pid // 100,
        world_size=3,
    )


def child(pid: int, of: LiveProcess, *stacks: tuple[Frame, ...], role: str) -> LiveProcess:
    return replace(process(pid, *stacks), works_for=of.pid, rank=None, label="worker", role=role)


def diagnosed(
    *rows: LiveProcess, motion: Motion | None = None
) -> tuple[Attribution, dict[str, Diagnosis]]:
    ranks = [one for one in rows if one.works_for is None]
    stacks = classes(
        RankStack(one.label, one.rank, None, f"pid {one.pid}", one.threads.items[0])
        for one in ranks
    )
    motions = tuple(motion or Motion(one.label, 0.0, 0, moved=False) for one in ranks)
    job = LiveJob(rows, stacks, samples=2, gap_seconds=1.0, motions=motions)
    blame = holder_up(job)
    outcome = run(RULES, {LiveJob: job, Attribution: blame})
    assert outcome.problems == ()
    return blame, {one.id: one for one in outcome.diagnoses}


OTHERS = (process(0, COLLECTIVE), process(200, COLLECTIVE))


@pytest.mark.parametrize(("world", "told"), [(2, "rank_holds_up"), (4, "waits_differ")])
def test_of_two_ranks_the_one_in_no_collective_holds_up_the_other(world: int, told: str) -> None:
    rows = (OTHERS[0], process(100, python(OWN)))
    blame, found = diagnosed(*(replace(one, world_size=world) for one in rows))
    assert found[told].confidence == ("likely" if world == 2 else "possible")
    assert [party.rank for party in (*blame.first, *blame.candidates)] == [1]


@pytest.mark.parametrize(
    ("worker", "feeder", "lost"),
    [
        (python(WORKER), python(POOL), True),
        (python(OWN, WORKER), python(POOL), False),
        (python(WORKER), python(OWN, POOL), False),
    ],
    ids=["idle", "at work", "its tasks are being made"],
)
def test_a_pool_whose_workers_are_all_idle_lost_the_task(
    worker: tuple[Frame, ...], feeder: tuple[Frame, ...], lost: bool
) -> None:
    late = process(100, python(POOL, OWN), feeder)
    at_work = child(150, late, worker, role="multiprocessing.Pool worker")
    blame, found = diagnosed(*OTHERS, late, at_work)
    assert blame.first[0].rank == 1
    assert ("its Pool" in (found["rank_holds_up"].verdict or "")) is lost


def test_the_last_of_the_children_whose_end_is_awaited_is_told() -> None:
    late = process(100, python(OWN), call=SystemCall("wait4", (150,), "waits for pid 150 to end"))
    sort = replace(
        child(150, late, (), role=""),
        tasks=(Task(150, "sort", "S", None, SystemCall("read", (0,), "waits to read from fd 0")),),
    )
    _, found = diagnosed(*OTHERS, late, sort)
    assert (found["rank_holds_up"].verdict or "").endswith("worker waits to read from fd 0")


def test_of_the_children_of_a_shell_the_first_is_told_that_feeds_the_others() -> None:
    def made(pid: int, of: int, name: str, *arguments: int) -> LiveProcess:
        call = SystemCall(name, arguments, f"waits in {name}")
        one = replace(child(pid, late, (), role=""), ppid=of, label=f"child pid {pid}")
        return replace(one, tasks=(Task(pid, "sh", "S", None, call),))

    late = process(100, python(OWN), call=SystemCall("wait4", (150,), "waits for pid 150 to end"))
    shell = made(150, 100, "wait4", 2**64 - 1)
    _, found = diagnosed(*OTHERS, late, shell, made(152, 150, "read", 0), made(151, 150, "openat"))
    assert (found["rank_holds_up"].verdict or "").endswith("child pid 151 waits in openat")


@pytest.mark.parametrize(("name", "confidence"), [("nanosleep", "likely"), ("read", "possible")])
def test_who_only_sleeps_between_looks_is_as_stuck_as_who_stands_still(
    name: str, confidence: str
) -> None:
    late = process(100, python(OWN), call=SystemCall(name, (0,), "waits for SQLite's lock"))
    woke = Motion("rank 1", 0.0, 9, moved=False)
    stacks = classes(
        RankStack(one.label, one.rank, None, "", one.threads.items[0]) for one in (*OTHERS, late)
    )
    still = tuple(Motion(one.label, 0.0, 0, moved=False) for one in OTHERS)
    job = LiveJob((*OTHERS, late), stacks, samples=2, gap_seconds=1.0, motions=(*still, woke))
    outcome = run(RULES, {LiveJob: job, Attribution: holder_up(job)})
    assert [one.confidence for one in outcome.diagnoses if one.id == "rank_holds_up"] == [
        confidence
    ]


RPC = "/x/site-packages/torch/distributed/rpc/"
ASKS = python(("rpc_sync", f"{RPC}api.py"), OWN)
SERVES = python(OWN, ("_run_function", f"{RPC}internal.py"))


@pytest.mark.parametrize(
    ("main", "thread", "told"),
    [(ASKS, SERVES, True), (ASKS, python(OWN), False), (python(OWN), SERVES, False)],
    ids=["a function of the other rank", "a thread of its own", "nobody asks"],
)
def test_an_rpc_waits_for_the_thread_that_runs_it(
    main: tuple[Frame, ...], thread: tuple[Frame, ...], told: bool
) -> None:
    serving = process(100, python(("shutdown", f"{RPC}api.py"), OWN), thread)
    serving = replace(
        serving,
        threads=replace(
            serving.threads,
            items=(
                serving.threads.items[0],
                replace(serving.threads.items[1], waits_for=Wait("an Event", 8)),
            ),
        ),
    )
    _, found = diagnosed(process(0, main), serving)
    one = found.get("rpc_unanswered")
    assert (one is not None and one.about is not None and one.about.rank == 1) is told
