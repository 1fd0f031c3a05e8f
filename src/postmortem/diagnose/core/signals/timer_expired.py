"""A timer of the process itself sent the fatal signal.

What it means
    The program, or a library in it, set a timer that sends a fatal signal when it runs out: a
    watchdog that expects to be reset, or a time limit. No instruction failed.

How to be sure
    siginfo says SI_TIMER, which only timer_create(2) gives. The stacks show what took so long.

What to do
    See what the threads waited for, and which code sets the limit.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://man7.org/linux/man-pages/man2/timer_create.2.html")
def timer_expired(crash: Crash) -> Findings:
    signal = crash.signal
    if crash.kind is not FaultKind.TIMER:
        return
    evidence = [crash.cited]
    crashed = crash.crashed
    if crashed is not None and crashed.frames:
        evidence.extend([cite_frame(crashed, 0), *cite_python(crashed)])
    yield Finding(
        title=f"a timer of the process ran out and sent {signal.name}",
        cause=f"{crash.words}. Where this thread stood is where it was when time was up",
        confidence=Confidence.CERTAIN,
        next_steps=(
            "see what the threads in this core wait for: that took longer than the timer allows",
            "search the program and its libraries for timer_create: who sets the limit, and how "
            "long it is",
        ),
        evidence=tuple(evidence),
    )
