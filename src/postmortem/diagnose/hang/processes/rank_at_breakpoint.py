"""A rank stands at a breakpoint of this package, and waits for somebody to come.

What it means
    The program called ``breakpoint_on_rank``. That rank waits for a terminal, or for what is typed
    there; the other ranks wait for it, outside of collectives. Nothing is broken.
How to be sure
    Its main thread is inside of postmortem's breakpoints, called by the line of the program.
What to do
    Attach, and continue or quit; or take the call out of the program.
"""

from postmortem.diagnose.hang.live_waits import place_words
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.live import LiveJob
from postmortem.facts.threads import at_breakpoint

_WAITS = {"session": "it waits for a terminal", "console": "somebody is at its debugger"}


@rule("https://github.com/torch-postmortem/postmortem/blob/main/docs/breakpoints.md")
def rank_at_breakpoint(job: LiveJob) -> Findings:
    for one in job.ranks():
        thread = one.main_thread
        said = _WAITS.get(at_breakpoint(thread) or "") if thread is not None else None
        if thread is None or said is None:
            continue
        place = place_words(thread, most=1)
        yield Finding(
            title=f"{one.label} stands at a breakpoint, {place}: {said}",
            cause=f"the program called breakpoint_on_rank there, and stopped on purpose: {said}",
            confidence=Confidence.CERTAIN,
            next_steps=(
                "postmortem attach, on that host; continue or quit there lets all ranks go on",
                f"not wanted? take the call at {place} out of the program",
            ),
            evidence=(Evidence(f"pid {one.pid}, thread {thread.tid}", f"{place}: {said}"),),
        )
        return
