"""A rank is slower than the others, which wait for it in each step.

What it means
    In most samples the same rank is in no collective while the others wait in one, and they all
    go on from sample to sample: nothing hangs, and every step lasts as long as that rank needs.
How to be sure
    More samples at another time: postmortem hang PIDs --samples 20 --gap 0.5. What is slow for one
    step alone (a checkpoint, an evaluation) is not told, nor are ranks that are all equally slow.
What to do
    A rank that computes has more to do (longer samples, logging), or a slower or a shared processor
    or GPU; one that waits for data has a slow disk or too few workers. One that is stopped again
    and again is held by a signal from outside: a limit on its processor, a scheduler, a debugger.
"""

from collections.abc import Callable

from postmortem.diagnose.hang.live_waits import place_words
from postmortem.diagnose.hang.pace import slow_ranks
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.live import LiveJob, Pace
from postmortem.facts.threads import Thread

_MOST_CITED = 4


@rule("https://docs.pytorch.org/docs/stable/distributed.html")
def rank_slow(job: LiveJob) -> Findings:
    slow = slow_ranks(job.paces)
    rest = [one for one in job.paces if one not in slow]
    for one in slow:
        yield _finding(job, one, rest)


def _finding(job: LiveJob, one: Pace, rest: list[Pace]) -> Finding:
    process = job.process(one.label)
    pid = process.pid if process is not None else None
    frame = Thread(tid=0, frames=(one.frame,)) if one.frame is not None else None
    place = place_words(frame, most=1) if frame is not None else ""
    at = f", mostly in {place}" if place else ""
    words: Callable[[Pace], str]
    steps: tuple[str, ...]
    if one.stopped > one.awaited or 2 * one.stopped > one.samples:
        does, words, steps = "a signal stops it again and again", _stopped_words, _RELEASE
    else:
        busy = 2 * one.ran >= one.awaited
        does = f"it {'computes' if busy else 'waits, for no other rank'}{at}"
        words, steps = _awaited_words, _COMPARE
    return Finding(
        title=f"{one.label} is slow: {does}",
        cause=f"{one.label} (pid {pid}) was {words(one)}, over {job.watched_seconds:.0f} s in "
        "which all ranks went on: every step lasts as long as it needs.",
        confidence=Confidence.LIKELY,
        about=Subject(pid=pid, rank=process.rank if process is not None else None),
        next_steps=steps,
        evidence=(
            Evidence(one.label, words(one)),
            *(Evidence(other.label, words(other)) for other in rest[:_MOST_CITED]),
        ),
    )


def _stopped_words(one: Pace) -> str:
    return f"stopped by a signal in {one.stopped} of {one.samples} samples"


def _awaited_words(one: Pace) -> str:
    return f"in no collective, while others waited, in {one.awaited} of {one.samples} samples"


_RELEASE = (
    "find who sends it SIGSTOP: a limit on its processor (cpulimit), a scheduler that suspends it",
)
_COMPARE = (
    "compare what it does there with another rank: more data, a slower disk, logging of rank 0?",
    "what else runs on its processors and its GPU: top -H, nvidia-smi",
)
