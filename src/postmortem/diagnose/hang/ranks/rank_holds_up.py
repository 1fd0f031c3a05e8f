"""A live rank stands elsewhere while the others wait for it.

What it means
    Nearly all ranks of this node stand in the same collective: that is what waiting looks like.
    Who stands elsewhere has not come to it, and holds up all. What it waits for itself (a lock
    with its holder, a file, a pipe or a socket with who has the other end, a child) is the
    cause, or leads to it.
How to be sure
    Look again some minutes later (--samples 2 --gap 60): who stands in the same place is stuck,
    who has moved or used the processor is slow. One sample cannot tell the two apart.
What to do
    Follow the chain that the report gives: the holder of the lock, the writer of the pipe, the
    peer of the socket. A wait in a file system is a matter for whoever runs that.
"""

from postmortem import thresholds
from postmortem.diagnose.hang.holding import WAITS
from postmortem.diagnose.hang.keeping import kept_words, naps_only
from postmortem.diagnose.hang.live_waits import (
    call_words,
    hot_words,
    place_words,
    wait_words,
    waits_words,
)
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.causes import StandsElsewhere
from postmortem.diagnose.ranks.phrases import ranks_words
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.live import LiveJob, LiveProcess, Motion

_MOST_CITED = 6
_SHORT, _LONG = 100, 240
_MATCH = " All ranks have to make the same calls in the same order; a receive needs a send."


@rule(
    "https://man7.org/linux/man-pages/man5/proc_pid_syscall.5.html",
    "https://docs.pytorch.org/docs/stable/distributed.html",
    yields_to=("rpc_unanswered",),
)
def rank_holds_up(blame: Attribution, job: LiveJob) -> Findings:
    cause = blame.cause
    if not isinstance(cause, StandsElsewhere) or not blame.first:
        return
    party = blame.first[0]
    process = job.process(party.label)
    who = ranks_words(blame.first)
    doing = _doing(process) if process is not None else party.why
    other = _other_call(job, party.label)
    if other:
        doing = f"is in {other}"
    title = _title(blame, process, other)
    thread = process.main_thread if process is not None else None
    place = place_words(thread, most=1) if thread is not None else ""
    kept = kept_words(job, process, thread) if process is not None and thread is not None else ""
    said = clip(title, _LONG) + (f", at {place}" if place else "")
    yield Finding(
        title=clip(f"{title}; {kept}" if kept else title, _SHORT),
        verdict=f"{said}; {kept}" if kept else said,
        cause=f"{who}{_where(process)} {doing}, while the others wait at {cause.most}."
        + (_MATCH if other else "")
        + _seen(job, process, party.label)
        + _hot(job, process)
        + _workers(job, process),
        confidence=_confidence(blame, job, process, party.label),
        next_steps=_steps(job, process, party),
        evidence=_evidence(blame, job),
    )


def _other_call(job: LiveJob, label: str) -> str:
    """Return the call in which a rank waits for the others, empty where it waits for none."""
    here = (one for one in job.stacks if any(m.label == label for m in one.members))
    one = next(here, None)
    return call_words(one.thread.frames) if one is not None and one.doing in WAITS else ""


def _title(blame: Attribution, process: LiveProcess | None, other: str) -> str:
    if other:
        who, are = ranks_words(blame.first), "is" if len(blame.first) == 1 else "are"
        return f"{who} {are} in another call than the others: {other}"
    thread = process.main_thread if process is not None else None
    doing = wait_words(process, thread) if process and thread else blame.first[0].why
    if len(blame.first) == 1:
        return f"{blame.first[0].label} holds up the others: it {doing}"
    return f"{ranks_words(blame.first)} hold up the others; the first {doing}"


def _where(process: LiveProcess | None) -> str:
    thread = process.main_thread if process is not None else None
    place = place_words(thread) if thread is not None else ""
    pid = f" (pid {process.pid})" if process is not None else ""
    return f"{pid}, at {place}," if place else pid


def _doing(process: LiveProcess) -> str:
    thread = process.main_thread
    return waits_words(process, thread) if thread is not None else "stands elsewhere"


def _seen(job: LiveJob, process: LiveProcess | None, label: str) -> str:
    motion = job.motion(label)
    if motion is None:
        return " One sample cannot tell stuck from slow: it is possibly only slow."
    seconds = f"{job.watched_seconds:g} s"
    if motion.is_still:
        return f" It did not run at all for {seconds}."
    if _only_naps(process, motion):
        return f" It woke up {motion.switches} times within {seconds}, and slept again there."
    if motion.is_busy:
        return f" It computed in the same function for {seconds}: an endless loop, or only slow."
    return f" It was active within {seconds}: slow rather than stuck."


def _only_naps(process: LiveProcess | None, motion: Motion) -> bool:
    thread = process.main_thread if process is not None else None
    return process is not None and thread is not None and naps_only(process, thread, motion)


def _hot(job: LiveJob, process: LiveProcess | None) -> str:
    path = job.hot_path(process.pid) if process is not None else None
    return f" {hot_words(path)}." if path is not None else ""


def _workers(job: LiveJob, process: LiveProcess | None) -> str:
    found = job.workers(process.pid) if process is not None else ()
    rows = []
    for one in found[:3]:
        thread = one.main_thread
        if thread is not None:
            place = place_words(thread, most=1)
            at = f" at {place}" if place else ""
            name = one.role or "child"
            rows.append(f"{name} pid {one.pid} {waits_words(one, thread)}{at}")
    return f" Of those that work for it: {'; '.join(rows)}." if rows else ""


def _confidence(
    blame: Attribution, job: LiveJob, process: LiveProcess | None, label: str
) -> Confidence:
    motion = job.motion(label)
    if motion is None or not (motion.is_still or _only_naps(process, motion)):
        return Confidence.POSSIBLE
    alone = len(blame.first) == 1 and len(job.ranks()) > 2
    long = job.watched_seconds >= thresholds.HELD_UP_SECONDS
    return Confidence.CERTAIN if alone and long else Confidence.LIKELY


def _steps(job: LiveJob, process: LiveProcess | None, party: Suspect) -> tuple[str, ...]:
    pids = " ".join(str(one.pid) for one in job.ranks()[:64])
    pid = process.pid if process is not None else "PID"
    steps = []
    if job.watched_seconds < thresholds.HELD_UP_SECONDS:
        steps.append(
            f"look again: postmortem hang {pids} --gap 60: still in the same place means stuck"
            if len(pids) < 200
            else "look again with --gap 60: still in the same place is stuck, else it is only slow"
        )
    thread = process.main_thread if process is not None else None
    place = place_words(thread, most=1) if thread is not None else ""
    if place:
        steps.append(f"read {party.label}'s code at {place}: what must happen for it to go on?")
    steps.append(
        f"keep its memory for later: gcore {pid}; then postmortem core core.{pid} shows locks and "
        "values"
    )
    return tuple(steps)


def _evidence(blame: Attribution, job: LiveJob) -> tuple[Evidence, ...]:
    rows = []
    for party in blame.first[:_MOST_CITED]:
        process = job.process(party.label)
        thread = process.main_thread if process is not None else None
        if process is not None and thread is not None:
            where = f"{party.label}, pid {process.pid}, thread {thread.tid}"
            rows.append(Evidence(where, f"{place_words(thread)}: {wait_words(process, thread)}"))
    rows += [Evidence(where, what) for where, what in blame.evidence[-1:]]
    return tuple(rows) or (Evidence("stacks", "of all ranks together"),)
