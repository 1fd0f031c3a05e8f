"""A rank waits for the answer of a function that another rank runs for it.

What it means
    With torch.distributed.rpc a call waits until the function has returned on the other rank, in
    a thread of its own there; its main thread may stand in shutdown(), as if it had nothing to do.
How to be sure
    Look again some minutes later (--gap 60): a thread in the same place is stuck, else it is slow.
What to do
    Follow what that thread waits for. With rpc_timeout above 0 the call fails instead.
"""

from postmortem.diagnose.hang.keeping import of_itself
from postmortem.diagnose.hang.live_waits import place_words, wait_words, waits_words
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.live import LiveJob, LiveProcess
from postmortem.facts.threads import Thread
from postmortem.patterns import Pattern

_ASKS = Pattern(r"/torch/(?:distributed/rpc|futures)/")
_SERVES = Pattern(r"/torch/distributed/rpc/internal\.py$")


@rule("https://docs.pytorch.org/docs/stable/rpc.html")
def rpc_unanswered(job: LiveJob) -> Findings:
    asking = [one for one in job.ranks() if _is_in(_ASKS, one.main_thread)]
    serving = [
        (one, thread, task)
        for one in job.ranks()
        for thread in one.threads
        if thread is not one.main_thread
        and _is_in(_SERVES, thread)
        and (task := of_itself(thread, _SERVES)).frames
    ]
    for one, thread, task in serving[:1]:
        waiting = [other.label for other in asking if other is not one]
        if not waiting:
            continue
        what = f"{wait_words(one, thread)}, at {place_words(task, most=1)}"
        yield Finding(
            title=clip(f"{one.label} does not answer {waiting[0]}'s RPC: it {what}", 100),
            verdict=f"{one.label} does not answer {waiting[0]}'s RPC: it {what}",
            cause=f"thread {thread.tid} of {one.label} runs a function that was asked for by RPC, "
            f"and {waits_words(one, thread)}, at {place_words(task)}; {', '.join(waiting[:4])} "
            "cannot go on before it returns",
            confidence=_confidence(job, [one, *asking]),
            next_steps=(
                f"look again: postmortem hang {one.pid} --gap 60: still in the same place is stuck",
                f"read the code at {place_words(task, most=1)}: what must happen for it to return?",
                "rpc_timeout above 0 makes the next such call fail, with its name",
            ),
            evidence=tuple(
                Evidence(
                    f"{who.label}, thread {at.tid}", f"{place_words(own)}: {wait_words(who, at)}"
                )
                for who, at, own in serving[:4]
            ),
            about=Subject(pid=one.pid, rank=one.rank),
        )


def _is_in(code: Pattern, thread: Thread | None) -> bool:
    return thread is not None and any(code.search(frame.file or "") for frame in thread.frames)


def _confidence(job: LiveJob, ranks: list[LiveProcess]) -> Confidence:
    seen = [motion for one in ranks if (motion := job.motion(one.label)) is not None]
    still = bool(seen) and all(not one.goes_on for one in seen)
    return Confidence.LIKELY if still else Confidence.POSSIBLE
