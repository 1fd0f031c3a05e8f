"""A process, or each rank alike, stood still for as long as it was watched.

What it means
    There is nobody else to compare with: it is alone, or all ranks stand in the same place, which
    is no collective. Its main thread did not run between the samples, or woke up only to sleep
    again; what it waits for, and who holds that or has the other end, is all that can be told. A
    worker of a pool or a DataLoader that is in the user's code keeps it waiting.
How to be sure
    A server that waits for its next request looks the same. Watch it for longer (--gap 60).
What to do
    Ask whether it should wait there at all, and follow what it waits for.
"""

from collections.abc import Iterator, Sequence

from postmortem.diagnose.hang.keeping import kept_by, lost_task, naps_only
from postmortem.diagnose.hang.live_waits import (
    hot_words,
    is_in_circle,
    place_words,
    wait_words,
    waits_words,
)
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import (
    ANY_REASON,
    Confidence,
    Evidence,
    Finding,
    Findings,
    Subject,
    rule,
)
from postmortem.facts.live import LiveJob, LiveProcess
from postmortem.facts.stackdumps import Doing
from postmortem.facts.threads import Thread

_LOCKS = ("python lock", "lock", "mutex", "unowned mutex")


@rule("https://man7.org/linux/man-pages/man5/proc_pid_syscall.5.html", yields_to=ANY_REASON)
def process_waits(job: LiveJob) -> Findings:
    ranks = job.ranks()
    if not ranks or (len(ranks) > 1 and not _all_alike(job)):
        return
    one, motion = ranks[0], job.motion(ranks[0].label)
    thread = one.main_thread
    if thread is None or motion is None or not thread.frames:
        return
    naps = len(ranks) == 1 and naps_only(one, thread, motion)
    if motion.goes_on and not naps:
        return
    if len(ranks) == 1 and is_in_circle(one, thread):
        return  # the deadlock says it
    place = place_words(thread)
    doing = "computes" if motion.is_busy else waits_words(one, thread)
    hot = job.hot_path(one.pid)
    shortly = wait_words(one, thread)
    seconds = f"{job.watched_seconds:g} s"
    if len(ranks) > 1:
        yield Finding(
            title=f"all {len(ranks)} ranks stood still, at {place_words(thread, most=1)}",
            cause=f"each {shortly}; in {seconds} none of them ran, and none is in a collective",
            confidence=Confidence.POSSIBLE,
            next_steps=(
                f"watch them for longer: postmortem hang {_pids(ranks)} --gap 60",
                f"read the code at {place}: what does it wait for, and who should provide it?",
            ),
            evidence=tuple(Evidence(f"pid {r.pid}", f"{r.label} {shortly}") for r in ranks[:4]),
        )
        return
    locked = tuple(_locked_out(job, one))
    if locked and not motion.is_busy:
        yield _of_workers(one, locked, f"{one.label} {shortly}")
        return
    at_work = kept_by(job, one, thread)
    if at_work and not motion.is_busy:
        yield _kept_by(one, at_work, f"{one.label} {shortly}")
        return
    stood, did = f"stood still: it {shortly}", "it did not run at all"
    should = "take so long" if motion.is_busy else "wait"
    if motion.is_busy:
        stood, did = f"computed in one place for {seconds}: {place}", "it never left that place"
    elif naps:
        stood = f"sleeps again and again in one place: {place}"
        did = f"it woke up {motion.switches} times, and slept again there"
    elif lost := lost_task(job, one, thread):
        stood += f"; {lost}"
    yield Finding(
        title=f"{one.label} {stood}",
        title_letters=200,
        cause=f"its main thread is at {place}; it {doing}; in {seconds} {did}"
        + (f"; {hot_words(hot)}" if hot is not None else ""),
        confidence=Confidence.POSSIBLE,
        next_steps=(
            f"watch it for longer: postmortem hang {one.pid} --gap 60",
            f"read the code at {place_words(thread, most=1)}: should it {should} there?",
        ),
        evidence=(Evidence(f"pid {one.pid}, thread {thread.tid}", f"{place}: {shortly}"),),
    )


def _locked_out(job: LiveJob, one: LiveProcess) -> Iterator[tuple[LiveProcess, Thread]]:
    """Yield the processes that work for one and wait for a lock that no thread of theirs holds."""
    for worker in job.workers(one.pid):
        thread = worker.main_thread
        wait = thread.waits_for if thread is not None else None
        if thread is not None and wait is not None and wait.kind in _LOCKS and wait.holder is None:
            yield worker, thread


def _kept_by(
    one: LiveProcess, at_work: Sequence[tuple[LiveProcess, Thread]], parent: str
) -> Finding:
    worker, thread = at_work[0]
    more = f" (and {len(at_work) - 1} more)" if len(at_work) > 1 else ""
    place, here = place_words(thread), place_words(thread, most=1)
    does = waits_words(worker, thread)
    return Finding(
        title=f"{worker.label}{more} keeps {one.label} waiting: it {does}"
        + (f", at {here}" if here else ""),
        title_letters=200,
        cause=f"{parent}; {worker.label}, which works for it, {does}"
        + (f" in {place}" if place else ""),
        confidence=Confidence.POSSIBLE,
        next_steps=(
            f"look whether it moves: postmortem hang {worker.pid} --gap 60",
            f"read the code at {here}: can it end for every item?"
            if here
            else f"follow what pid {worker.pid} waits for: who holds it, or has its other end?",
        ),
        evidence=tuple(
            Evidence(
                f"pid {w.pid}, thread {at.tid}",
                ": ".join(filter(None, (place_words(at), wait_words(w, at)))),
            )
            for w, at in at_work[:4]
        ),
        about=Subject(pid=worker.pid, rank=one.rank),
    )


def _of_workers(
    one: LiveProcess, locked: Sequence[tuple[LiveProcess, Thread]], parent: str
) -> Finding:
    worker, thread = locked[0]
    who = worker.label + (f" and {len(locked) - 1} more" if len(locked) > 1 else "")
    here = place_words(thread, most=1)
    return Finding(
        title=clip(f"{who}: {wait_words(worker, thread)} at {here}", 100),
        cause=f"{parent}; {worker.label}, at {place_words(thread)}, "
        f"{waits_words(worker, thread)}. A fork copies a lock that another thread of the parent "
        "holds, and not that thread: in the child nobody can release it",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            f"read the code at {here}: which thread of pid {one.pid} held "
            "that lock when the worker was started?",
            'multiprocessing_context="spawn" for the DataLoader, or make the lock in the worker',
        ),
        evidence=tuple(
            Evidence(f"pid {w.pid}, thread {at.tid}", f"{place_words(at)}: {wait_words(w, at)}")
            for w, at in locked[:4]
        ),
        about=Subject(pid=worker.pid, rank=one.rank),
    )


def _all_alike(job: LiveJob) -> bool:
    """Return whether all ranks stand in one place that is no collective, and none goes on."""
    if len(job.stacks) != 1 or any(one.goes_on or one.is_busy for one in job.motions):
        return False
    here = job.stacks.items[0]
    return here.doing is not Doing.COLLECTIVE and len(here.members) == len(job.ranks())


def _pids(ranks: Sequence[LiveProcess]) -> str:
    return " ".join(f"{one.pid}" for one in ranks[:8])
