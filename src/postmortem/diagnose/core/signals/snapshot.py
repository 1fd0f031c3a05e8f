"""The core is a snapshot of a process that lived on.

What it means
    gcore (or a debugger) wrote this core from a live process, to see where it stood. No signal
    ended it; a "current" thread in it is merely the one that the debugger looked at.
How to be sure
    gcore writes the notes of each thread in its own way, with SIGSTOP or SIGTRAP from the
    debugger's attaching.
What to do
    Read it for a hang: what does each thread wait for? Take a second one some seconds later;
    only what is equal in both is stuck.
"""

from postmortem.diagnose.core.caught import fault_elsewhere
from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.signal_words import saved_by
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Topic, rule
from postmortem.diagnose.stacks.activity import activity
from postmortem.diagnose.stacks.async_tasks import loop_words
from postmortem.facts.memory import Modules
from postmortem.facts.process import CoreFile
from postmortem.facts.threads import Threads

_MOST_FOLLOWED = 4


def _waits_of(threads: Threads) -> str:
    """Return what the main thread waits for, and the threads whose end it waits for."""
    by_tid = {thread.tid: thread for thread in threads}
    thread, told = threads.main, ""
    for _ in range(_MOST_FOLLOWED):
        if thread is None:
            break
        wait = thread.waits_for
        found = f"waits for {wait.what}" if wait else loop_words(threads, thread.tid)
        words = found or activity(thread, threads.main_tid, None).waits
        if not words:
            break
        told += f", which {words}" if told else f": the main thread {words}"
        joined = wait.holder if wait is not None and wait.kind == "join" else None
        thread = by_tid.get(joined) if joined is not None else None
    return told


@rule("https://man7.org/linux/man-pages/man1/gcore.1.html", role=Role.CONTEXT, topic=Topic.SNAPSHOT)
def snapshot(kind: FaultKind, core: CoreFile, threads: Threads, modules: Modules) -> Findings:
    if kind is not FaultKind.SNAPSHOT:
        return
    by = saved_by(core, modules)
    evidence = [Evidence(f"core {core.path}", f"written by {by} from a live process")]
    main = threads.main
    if main is not None and main.frames:
        evidence.extend([cite_frame(main, 0), *cite_python(main)])
    if (failed := fault_elsewhere(threads)) is not None:
        thread, at, fault = failed
        yield Finding(
            title=f"{fault}; a handler had it when {by} took this snapshot",
            cause=f"thread {thread.tid} had failed and was in its signal handler when {by} wrote "
            "this core: the process had not ended yet",
            confidence=Confidence.LIKELY,
            next_steps=(f"read the stack of thread {thread.tid} beyond the handler",),
            evidence=(*evidence, cite_frame(thread, at), *cite_python(thread)),
            role=Role.ROOT,
        )
        return
    yield Finding(
        title=f"a snapshot of a live process ({by}): it did not crash",
        cause=f"{by} wrote this core while the process was running; it tells where the threads "
        f"stood at that moment{_waits_of(threads)}",
        # A program can write such a core of itself from its crash handler, as other tools do.
        confidence=Confidence.CERTAIN if core.origin == "gcore" else Confidence.LIKELY,
        next_steps=(
            "if the process seemed to hang, see which thread waits for what in the stacks here",
            "take a second snapshot some seconds later: only equal stacks are stuck",
        ),
        evidence=tuple(evidence),
    )
