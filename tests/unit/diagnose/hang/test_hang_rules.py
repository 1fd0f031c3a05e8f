"""The rules over live processes: what each must say, and what it must not."""

import pytest

from builders.prose import Prose
from postmortem.diagnose.hang.holding import holder_up
from postmortem.diagnose.hang.live_waits import wait_words, waits_words
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.causes import NothingFailed, StandsElsewhere
from postmortem.diagnose.rule import load, run
from postmortem.diagnose.stacks.classes import classes
from postmortem.facts.live import (
    Descriptor,
    LiveJob,
    LiveProcess,
    Motion,
    Pace,
    Reading,
    SystemCall,
    Task,
)
from postmortem.facts.stackdumps import RankStack
from postmortem.facts.threads import Frame, Thread, Threads, Wait
from postmortem.present.card import card_of
from postmortem.present.hang.card import hang_highlights
from postmortem.present.hang.report import hang_report
from postmortem.present.headline.hang import headline
from postmortem.readers.stackdumps import looks_like_stacks, read_stack_dumps
from postmortem.records import replace
from postmortem.render.card import lines
from postmortem.render.page import Page
from postmortem.report.model import Diagnosis, Subject
from postmortem.run.explain import explanation_of

RULES = load("hang")
COLLECTIVE = (
    Frame("all_reduce", "python", file="/x/torch/distributed/distributed_c10d.py", line=9),
    Frame("train", "python", file="/job/train.py", line=31),
)
ELSEWHERE = (
    Frame("save", "python", file="/job/train.py", line=52),
    Frame("train", "python", file="/job/train.py", line=30),
)


def process(
    rank: int, frames: tuple[Frame, ...], *, state: str = "S", wait: Wait | None = None
) -> LiveProcess:
    pid = 100 + rank
    return LiveProcess(
        pid=pid,
        ppid=1,
        state=state,
        user="u",
        argv=("python", "train.py"),
        label=f"rank {rank}",
        reading=Reading("native", "own reader"),
        threads=Threads((Thread(tid=pid, frames=frames, waits_for=wait),), pid),
        tasks=(Task(pid, "python", state, "futex_do_wait"),),
        rank=rank,
        world_size=4,
    )


def job(*rows: LiveProcess, motions: tuple[Motion, ...] = (), **more: object) -> LiveJob:
    stacks = classes(
        RankStack(one.label, one.rank, None, f"pid {one.pid}", one.threads.items[0])
        for one in rows
        if one.threads.items[0].frames
    )
    made = LiveJob(rows, stacks, samples=2 if motions else 1, gap_seconds=1.0, motions=motions)
    return replace(made, **more)  # type: ignore[arg-type]


def diagnosed(found: LiveJob, blame: Attribution | None = None) -> dict[str, Diagnosis]:
    outcome = run(RULES, {LiveJob: found, Attribution: blame or Attribution(NothingFailed())})
    assert outcome.problems == ()
    for one in outcome.diagnoses:
        assert 0 < len(one.title) <= 100
        assert one.evidence
        assert one.next_steps
    return {one.id: one for one in outcome.diagnoses}


def blamed(rank: int) -> Attribution:
    return Attribution(
        StandsElsewhere("train.py:31"), (Suspect(f"rank {rank}", rank, None, "stands"),)
    )


WAITING = [process(rank, COLLECTIVE) for rank in (0, 1, 3)]
STILL = Motion("rank 2", 0.0, 0, moved=False)


@pytest.mark.parametrize(
    ("motion", "gap", "confidence"),
    [
        (None, 1.0, "possible"),
        (STILL, 1.0, "likely"),
        (STILL, 60.0, "certain"),
        (Motion("rank 2", 0.95, 3, moved=False), 60.0, "possible"),
        (Motion("rank 2", 0.1, 30, moved=True), 60.0, "possible"),
    ],
)
def test_rank_holds_up(motion: Motion | None, gap: float, confidence: str, prose: Prose) -> None:
    rows = [*WAITING, process(2, ELSEWHERE)]
    found = job(*rows, motions=(motion,) if motion else (), gap_seconds=gap)
    one = diagnosed(found, blamed(2))["rank_holds_up"]
    assert one.confidence == confidence
    prose(one.cause)
    prose(one.title)
    assert "save (train.py:52)" in one.cause


@pytest.mark.parametrize("name", ["short", "a-long-name-of-a-checkpoint-" * 3])
def test_the_headline_names_all_that_a_rank_waits_for(name: str) -> None:
    target = f"/scratch/{name}.pt"
    wait = Wait(f"a lock of {target}", 7)
    found = job(*WAITING, process(2, ELSEWHERE, wait=wait), motions=(STILL,))
    one = diagnosed(found, blamed(2))
    said = headline(found, blamed(2), [one["rank_holds_up"]])
    assert target in said
    assert said.endswith(", at save (train.py:52)")
    assert len(one["rank_holds_up"].title) <= 100


def test_nobody_holds_up_where_nobody_is_blamed() -> None:
    found = diagnosed(job(*WAITING, process(2, ELSEWHERE), motions=(STILL,)))
    assert "rank_holds_up" not in found


_C10D = "/x/site-packages/torch/distributed/distributed_c10d.py"
REDUCE = (Frame("all_reduce", "python", file=_C10D, line=9), *COLLECTIVE[1:])
BARRIER = (
    Frame("barrier", "python", file=_C10D, line=5),
    Frame("step", "python", file="/job/train.py", line=12),
)
_APART = (
    "rank 0 waits in all_reduce at train (train.py:31), "
    "rank 1 waits in barrier at step (train.py:12)"
)
_STANDS = "rank 0 waits in all_reduce at train (train.py:31), rank 1 stands in save (train.py:52)"
BOTH_STILL = (replace(STILL, label="rank 0"), replace(STILL, label="rank 1"))


@pytest.mark.parametrize(
    ("other", "world_size", "confidence", "said"),
    [
        (BARRIER, 2, "likely", _APART),
        (BARRIER, 4, "possible", _APART),
        (ELSEWHERE, 4, "possible", _STANDS),
    ],
)
def test_waits_differ(
    other: tuple[Frame, ...], world_size: int, confidence: str, said: str, prose: Prose
) -> None:
    rows = [replace(process(n, f), world_size=world_size) for n, f in ((0, REDUCE), (1, other))]
    found = job(*rows, motions=BOTH_STILL)
    blame = holder_up(found)
    one = diagnosed(found, blame)["waits_differ"]
    assert one.confidence == confidence
    assert one.title == said
    prose(headline(found, blame, [one]))
    assert "postmortem hang 100 101 --gap 60" in one.next_steps[1]
    places = hang_highlights(found, blame).places
    assert [place.line for place in places] == ([31, 12] if other is BARRIER else [52, 31])


def test_waits_that_are_a_circle_through_the_lock_of_a_file() -> None:
    words = "waits in flock of fd 7 (/data/hub.lock), held by rank 1"
    call = SystemCall("flock", (7, 2), words, fds=(7,), holders=(101,))
    waits = replace(process(0, ELSEWHERE), tasks=(Task(100, "python", "S", call=call),))
    found = job(waits, process(1, BARRIER), motions=BOTH_STILL)
    one = diagnosed(found, holder_up(found))["waits_differ"]
    assert one.confidence == "likely"
    assert one.title.startswith(
        "rank 0 waits in flock of fd 7 (/data/hub.lock), held by rank 1, at "
    )
    of_others = replace(call, holders=(999,))  # who holds it is no rank: nothing is decided
    other = replace(waits, tasks=(Task(100, "python", "S", call=of_others),))
    found = job(other, process(1, BARRIER), motions=BOTH_STILL)
    assert diagnosed(found, holder_up(found))["waits_differ"].confidence == "possible"


def test_waits_do_not_differ_where_ranks_get_on_or_most_wait_alike() -> None:
    pair = [process(0, COLLECTIVE), process(1, BARRIER)]
    going = (BOTH_STILL[0], Motion("rank 1", 0.1, 30, moved=True))
    on = job(*pair, motions=going)
    assert "waits_differ" not in diagnosed(on, holder_up(on))
    most = job(*WAITING, process(2, BARRIER), motions=(STILL,))
    assert "waits_differ" not in diagnosed(most, holder_up(most))


def test_all_wait_together(prose: Prose) -> None:
    here = diagnosed(job(*WAITING, motions=(replace(STILL, label="rank 0"),)))
    prose(here["all_wait_together"].title)
    all_here = diagnosed(job(*WAITING, process(2, COLLECTIVE)))
    prose(all_here["all_wait_together"].title)
    unread = diagnosed(job(*WAITING, process(2, ())))
    prose(unread["all_wait_together"].title)


def test_who_waits_together_is_told_where_no_process_says_its_rank() -> None:
    ends = (Descriptor(8, "socket:[9]", "socket", peers=(101, 103)),)
    rows = [
        replace(process(n, COLLECTIVE), rank=None, world_size=None, descriptors=ends, label=f"p{n}")
        for n in (0, 1)
    ]
    still = tuple(replace(STILL, label=one.label) for one in rows)
    one = diagnosed(job(*rows, motions=still))["all_wait_together"]
    assert one.next_steps[0].startswith("postmortem hang 100 101 103 ")
    assert "all_wait_together" not in diagnosed(job(*rows))  # one look: they may go on
    going = (replace(still[0], moved=True), still[1])
    assert "all_wait_together" not in diagnosed(job(*rows, motions=going))


def test_a_collective_that_goes_on_is_no_wait() -> None:
    motions = (Motion("rank 0", 0.1, 90, moved=True),)
    assert "all_wait_together" not in diagnosed(job(*WAITING, motions=motions))


def test_process_stopped() -> None:
    assert "process_stopped" in diagnosed(job(process(0, COLLECTIVE, state="T")))
    assert "process_stopped" not in diagnosed(job(process(0, COLLECTIVE)))


@pytest.mark.parametrize(
    "seen", [Motion("rank 0", 0.1, 30, moved=True), Motion("rank 0", 0.001, 4, moved=False)]
)
def test_a_process_that_goes_on_between_its_stops_is_not_told_to_do_nothing(
    seen: Motion, prose: Prose
) -> None:
    """Whoever looks at it wakes it up: that alone is no going on."""
    one = diagnosed(job(process(0, COLLECTIVE, state="T"), motions=(seen,)))["process_stopped"]
    prose(one.title, one.cause)


@pytest.mark.parametrize(
    "seen", [{"awaited": 9, "ran": 8}, {"awaited": 9, "ran": 0}, {"stopped": 12, "awaited": 3}]
)
def test_rank_slow(seen: dict[str, int], prose: Prose) -> None:
    known = {"samples": 12, "stopped": 0, "awaited": 0, "steps": 4, "went_on": 9}
    slow = Pace("rank 2", **known | seen, frame=ELSEWHERE[0])
    rest = [Pace(f"rank {rank}", **known) for rank in (0, 1, 3)]
    rows = [*WAITING, process(2, ELSEWHERE, state="T" if "stopped" in seen else "S")]
    found = diagnosed(job(*rows, paces=(slow, *rest)))
    prose(found["rank_slow"].title)
    assert found["rank_slow"].about == Subject(pid=102, rank=2)
    assert "process_stopped" not in found
    assert "rank_slow" not in diagnosed(job(*rows))


def test_a_run_concludes_who_is_slow() -> None:
    known = {"samples": 12, "stopped": 0, "steps": 4, "went_on": 9}
    slow = Pace("rank 2", **known, awaited=9)
    rest = [Pace(f"rank {rank}", **known, awaited=0) for rank in (0, 1, 3)]
    seen, nobody = (
        job(*WAITING, process(2, ELSEWHERE), paces=(slow, *rest)),
        Attribution(NothingFailed()),
    )
    outcome = run(RULES, {LiveJob: seen, Attribution: nobody})
    report = hang_report(seen, nobody, outcome.diagnoses, outcome, (), verbose=False)
    conclusion = explanation_of(report, found=True).conclusion
    assert conclusion is not None
    assert (conclusion["ranks"], outcome.diagnoses[0].id) == ([2], "rank_slow")


def test_uninterruptible_wait() -> None:
    stuck = process(0, ELSEWHERE, state="D")
    still = replace(STILL, label="rank 0")
    assert diagnosed(job(stuck, motions=(still,)))["uninterruptible_wait"].confidence == "likely"
    assert diagnosed(job(stuck))["uninterruptible_wait"].confidence == "possible"
    goes_on = Motion("rank 0", 0.2, 400, moved=False)
    assert "uninterruptible_wait" not in diagnosed(job(stuck, motions=(goes_on,)))


def test_rank_missing() -> None:
    assert "rank_missing" in diagnosed(job(*WAITING, missing_local_ranks=(2,)))
    assert "rank_missing" not in diagnosed(job(*WAITING))


def test_process_waits() -> None:
    alone, still = process(0, ELSEWHERE), replace(STILL, label="rank 0")
    assert "process_waits" in diagnosed(job(alone, motions=(still,)))
    busy = Motion("rank 0", 0.99, 0, moved=False, ran_always=True)
    found = [diagnosed(job(alone, motions=(one,)))["process_waits"] for one in (still, busy)]
    assert ["should it wait" in one.next_steps[1] for one in found] == [True, False]
    moving = Motion("rank 0", 0.3, 20, moved=True)
    assert "process_waits" not in diagnosed(job(alone, motions=(moving,)))
    assert "process_waits" not in diagnosed(job(*WAITING, motions=(still,)))


def test_a_process_that_sleeps_between_looks_does_not_progress() -> None:
    def sleeping(name: str) -> LiveProcess:
        call = SystemCall(name, (0,), "sleeps for 0.1 s")
        return replace(process(0, ELSEWHERE), tasks=(Task(100, "python", "S", None, call),))

    woke = Motion("rank 0", 0.0, 9, moved=False)
    assert "process_waits" in diagnosed(job(sleeping("clock_nanosleep"), motions=(woke,)))
    assert "process_waits" not in diagnosed(job(sleeping("recvfrom"), motions=(woke,)))
    worked = replace(woke, cpu_share=0.3)
    assert "process_waits" not in diagnosed(job(sleeping("clock_nanosleep"), motions=(worked,)))


def test_a_worker_in_the_users_code_keeps_its_process_waiting() -> None:
    loop = Frame(
        "_worker_loop", "python", file="/v/site-packages/torch/utils/data/_utils/worker.py", line=7
    )
    alone, still = process(0, COLLECTIVE[1:]), replace(STILL, label="rank 0")
    fetch = Frame("fetch", "python", file=loop.file, line=5)
    for frames, pid in (((*ELSEWHERE, fetch, loop), 107), ((fetch, loop, *ELSEWHERE), None)):
        worker = replace(process(7, frames), label="worker", works_for=alone.pid)
        found = diagnosed(replace(job(alone, motions=(still,)), processes=(alone, worker)))
        assert found["process_waits"].about == (pid and Subject(pid=pid, rank=0))


@pytest.mark.parametrize(
    ("calls", "about"),
    [
        ({100: ("wait4", 107), 107: ("wait4", 108), 108: ("flock", 3)}, 108),
        ({100: ("waitid", 1, 107), 107: ("flock", 3)}, 107),
        ({100: ("wait4", 109), 107: ("flock", 3)}, None),
        ({100: ("wait4", 2**64 - 1), 107: ("flock", 3)}, None),
        ({100: ("wait4", 107), 107: ("wait4", 100)}, 107),
    ],
    ids=["the last of a chain", "waitid", "one that was not read", "any", "no further than itself"],
)
def test_a_process_is_kept_by_the_child_whose_end_it_waits_for(
    calls: dict[int, tuple[str, int]], about: int | None
) -> None:
    def made(rank: int, works_for: int | None) -> LiveProcess:
        one = process(rank, ELSEWHERE[:1] if rank == 0 else (Frame("main", "native"),))
        name, *arguments = calls.get(one.pid, ("read", 0))
        call = SystemCall(name, tuple(arguments))
        task = Task(one.pid, "x", "S", None, call)
        return replace(one, works_for=works_for, label=f"p{rank}", tasks=(task,))

    alone, *children = made(0, None), made(7, 100), made(8, 100)
    found = replace(job(alone, motions=(replace(STILL, label="p0"),)), processes=(alone, *children))
    assert diagnosed(found)["process_waits"].about == (about and Subject(pid=about, rank=0))


def test_a_rank_in_another_collective_is_said_to_be_in_it(prose: Prose) -> None:
    c10d = "/v/site-packages/torch/distributed/distributed_c10d.py"
    barrier = (Frame("barrier", "python", file=c10d, line=5), *ELSEWHERE)
    rows = [process(0, barrier), *(process(rank, COLLECTIVE) for rank in (1, 2, 3))]
    found = job(*rows, motions=tuple(replace(STILL, label=one.label) for one in rows))
    prose(diagnosed(found, holder_up(found))["rank_holds_up"].title)


@pytest.mark.parametrize(
    ("wait", "pid"),
    [
        (Wait("a Python lock", 8, kind="python lock"), 107),
        (Wait("a Python lock", 8, holder=108, kind="python lock"), None),
        (Wait("a Condition", 8, kind="condition"), None),
        (None, None),
    ],
    ids=["held by nobody in it", "held by a thread of it", "waits for work", "reads"],
)
def test_a_process_that_waits_for_a_worker_before_a_lock(
    wait: Wait | None, pid: int | None
) -> None:
    alone, still = process(0, COLLECTIVE[1:]), replace(STILL, label="rank 0")
    worker = replace(process(7, ELSEWHERE, wait=wait), label="worker", works_for=alone.pid)
    found = diagnosed(replace(job(alone, motions=(still,)), processes=(alone, worker)))
    assert found["process_waits"].about == (pid and Subject(pid=pid, rank=0))


def test_rank_at_breakpoint(prose: Prose) -> None:
    ours = "/opt/venv/lib/python3.12/site-packages/postmortem/breakpoints/{}.py"

    def at(rank: int, *parts: str) -> LiveProcess:
        inner = [Frame("wait", "python", file="/usr/lib/python3.12/threading.py", line=1)]
        inner += [Frame("f", "python", file=ours.format(part), line=2) for part in parts]
        return process(rank, (*inner, *ELSEWHERE))

    still = [replace(STILL, label=f"rank {rank}") for rank in range(3)]
    rows = [at(0, "waiting", "call"), at(1, "session", "call"), at(2, "waiting", "call")]
    found = diagnosed(job(*rows, motions=tuple(still)))
    prose(found["rank_at_breakpoint"].title)
    assert "process_waits" not in found
    assert "rank_at_breakpoint" in diagnosed(job(at(0, "console", "call")))
    assert "rank_at_breakpoint" not in diagnosed(job(at(0, "call"), motions=tuple(still[:1])))


def test_all_ranks_stand_still_in_a_place_that_is_no_collective(prose: Prose) -> None:
    rows = [process(rank, ELSEWHERE) for rank in range(4)]
    still = [replace(STILL, label=one.label) for one in rows]
    found = diagnosed(job(*rows, motions=tuple(still)))["process_waits"]
    prose(found.title)
    assert found.confidence == "possible"
    assert "postmortem hang 100 101 102 103 --gap 60" in found.next_steps[0]
    ran = replace(still[2], moved=True, cpu_share=0.3, switches=20)
    assert "process_waits" not in diagnosed(job(*rows, motions=(*still[:2], ran, still[3])))
    assert "process_waits" not in diagnosed(job(*rows[:3], process(3, COLLECTIVE), motions=still))
    waiting = [process(rank, COLLECTIVE) for rank in range(4)]
    assert "process_waits" not in diagnosed(job(*waiting, motions=tuple(still)))


def test_a_chain_of_locks_is_followed_and_a_circle_ends(prose: Prose) -> None:
    first = Thread(1, frames=ELSEWHERE, waits_for=Wait("a mutex", 8, holder=2))
    second = Thread(2, frames=ELSEWHERE, name="b", waits_for=Wait("the GIL", 9, 1, kind="gil"))
    one = replace(process(0, ELSEWHERE), threads=Threads((first, second), 1))
    prose(wait_words(one, first))
    assert waits_words(one, first).endswith(": a circle")


def test_words_of_calls_and_descriptors(prose: Prose) -> None:
    call = SystemCall("read", (7,), "waits to read from fd 7 (fifo /gate)", (7,))
    task = Task(100, "python", "D", "pipe_read", call)
    one = replace(process(0, ELSEWHERE), tasks=(task,))
    words = waits_words(one, one.threads.items[0])
    prose(words)
    row = Descriptor(7, "/gate", "fifo", None, "nobody has it open for writing")
    assert row.words == "fd 7 (fifo /gate, nobody has it open for writing)"


def test_what_was_printed_of_one_rank_each_is_read_again() -> None:
    text = "before I killed it:\n"
    for one in (process(2, ELSEWHERE), *WAITING):
        found = job(one, motions=(replace(STILL, label=one.label),))
        outcome = run(RULES, {LiveJob: found, Attribution: Attribution(NothingFailed())})
        nobody = Attribution(NothingFailed())
        report = hang_report(found, nobody, outcome.diagnoses, outcome, (), verbose=False)
        rows = lines(Page(100), replace(card_of(report), footer=("1.38 s", *report.footer)))
        text += "$ postmortem hang 4711\n"
        text += "".join("".join(part for part, _ in row) + "\n" for row in rows) + "\n"
    assert looks_like_stacks(text)
    dumps = read_stack_dumps(text, "notes.txt")
    places = [(d.rank, *((f.function, f.line) for f in d.threads[0].frames)) for d in dumps]
    assert places == [(2, ("save", 52)), *((rank, ("all_reduce", 9)) for rank in (0, 1, 3))]
