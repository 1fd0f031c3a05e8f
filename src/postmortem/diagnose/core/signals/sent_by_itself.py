"""The process sent a fatal signal to itself.

What it means
    Code inside the process called kill(), pthread_kill() or tgkill() on its own process: a
    watchdog thread that wants a core of a stuck thread, a supervisor in a library, a test.
    The thread that the signal hit may have been doing something quite different.
How to be sure
    siginfo names the sender: the process itself. If the stack stands in the sending call, its
    caller decided; if not, another thread did, and this stack shows only where the target was.
What to do
    Look for the watchdog or time-out that does this: search the code and the log for the
    name of the signal. What the threads waited for tells why it ran out of patience.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.fault_words import explain
from postmortem.diagnose.core.owners import module_name
from postmortem.diagnose.core.python_calls import python_call
from postmortem.diagnose.core.stacks import caller, frame_name, plain
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.threads import Thread

_SENDING = ("kill", "__kill", "pthread_kill", "tgkill", "sigqueue", "killpg", "raise", "__GI_raise")


@rule(
    "https://man7.org/linux/man-pages/man2/kill.2.html",
    "https://man7.org/linux/man-pages/man3/pthread_kill.3.html",
)
def sent_by_itself(crash: Crash) -> Findings:
    signal = crash.signal
    if crash.kind is not FaultKind.SENT_BY_ITSELF:
        return
    crashed = crash.crashed
    evidence = [crash.cited]
    by = ""
    sent_here = _sends(crashed)
    if crashed.frames:
        index = caller(crashed) if sent_here else 0
        evidence += crash.frame(index or 0)
        if sent_here and index is not None:
            by = f": {_caller(crashed, index)}"
        elif not sent_here and not _is_nameless(crashed):
            by = ", most likely from another thread"
    sender = next((t for t in crash.threads.others() if _sends(t)), None)
    if sender is not None and not sent_here:
        by = f" from {sender.words}"
        evidence.extend([cite_frame(sender, caller(sender) or 0), *cite_python(sender)])
    yield Finding(
        title=f"the process sent itself {signal.name}{by}",
        cause=explain(crash.kind, signal, None, crash.threads, crash.process)
        + ". Somebody in this process wanted it to end: the reason is with the sender",
        # Two threads in kill(): siginfo names the process, not which of them it was.
        confidence=Confidence.CERTAIN if sent_here and sender is None else Confidence.LIKELY,
        next_steps=(
            f"search the program, its libraries and its log for {signal.name}: a watchdog or a "
            "time-out sends it",
            "see what the threads in this core wait for: that is what it may have run out of "
            "patience with",
        ),
        evidence=tuple(evidence),
    )


def _sends(thread: Thread) -> bool:
    return any(frame.function.partition("(")[0] in _SENDING for frame in thread.frames[:3])


def _is_nameless(thread: Thread) -> bool:
    """Whether the stack cannot tell what the thread did: it may have sent the signal itself."""
    return thread.frames[0].function == "??"


def _caller(thread: Thread, index: int) -> str:
    """Return who called what, in the words of the language that it was called from."""
    said = python_call(thread, index)
    if said is not None:
        return said
    names = [plain(frame.function) for frame in thread.frames[:index]]
    called = next((name for name in reversed(names) if name in _SENDING), "kill")
    frame = thread.frames[index]
    name = frame_name(frame, 40) if frame.function != "??" else module_name(frame.module)
    return f"{name} called {called}"
