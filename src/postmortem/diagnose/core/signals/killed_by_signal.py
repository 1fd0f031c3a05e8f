"""Somebody else ended the process.

What it means
    The fatal signal was sent from outside: by a launcher that clears up after another rank, a
    watchdog or time limit of the scheduler, an operator who wanted a core, or Ctrl-\\ on the
    terminal. Where the threads stood then is no fault, but shows what they were waiting for.

How to be sure
    siginfo names the sender's pid and user; a pid of 0 is a process outside the container.
    The pid may be gone by now; the scheduler's or launcher's log knows it.

What to do
    Find out what the sender was and why. If the job hung, the stacks in this core show where.
"""

from postmortem.diagnose.core.caught import fault_elsewhere
from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule

_KINDS = (
    FaultKind.KILLED_BY_PROCESS,
    FaultKind.KILLED_BY_KERNEL,
    FaultKind.SENT_FROM_ELSEWHERE,
    FaultKind.TERMINAL_QUIT,
)


@rule(
    "https://man7.org/linux/man-pages/man2/kill.2.html",
    "https://man7.org/linux/man-pages/man7/signal.7.html",
    role=Role.CASCADE,
)
def killed_by_signal(crash: Crash) -> Findings:
    signal = crash.signal
    if crash.kind not in _KINDS:
        return
    evidence = [crash.cited]
    by = {
        FaultKind.KILLED_BY_KERNEL: "by the kernel",
        FaultKind.SENT_FROM_ELSEWHERE: "from elsewhere",
        FaultKind.TERMINAL_QUIT: "from the terminal (Ctrl-\\)",
    }.get(crash.kind)
    steps: list[str] = []
    if by is None:
        is_parent = crash.process.ppid == signal.sender_pid
        by = f"by process {signal.sender_pid}"
        if signal.sender_pid == 0:
            by = "by a process outside its container"
        elif is_parent:
            by += ", its parent"
        steps.append(_who_sent(signal.sender_pid))
        if crash.process.ppid == 1 and signal.sender_pid:
            steps.append(
                f"the parent of this process is gone: if that was {signal.sender_pid}, its own end "
                "sent the signal (prctl(2), PR_SET_PDEATHSIG), and what ended it is the question"
            )
    main = crash.threads.main
    if main is not None and main.frames:
        evidence.extend([cite_frame(main, 0), *cite_python(main)])
        steps.append("did the job hang? the main thread's stack in this report shows where it was")
    steps.append("for a job of several ranks look for the rank that failed or stopped first")
    if (failed := fault_elsewhere(crash.threads)) is not None:
        thread, at, fault = failed
        yield Finding(
            title=f"{fault}; its handler was still busy when it was killed {by}",
            cause=f"thread {thread.tid} had failed and was in its signal handler when "
            f"{signal.name} ended the process: a crash handler that hangs or waits",
            confidence=Confidence.LIKELY,
            next_steps=(f"read the stack of thread {thread.tid} beyond the handler", *steps),
            evidence=(cite_frame(thread, at), *cite_python(thread), *evidence),
            role=Role.ROOT,
        )
        return
    yield Finding(
        title=f"the process was killed {by}; it did not crash by itself",
        cause=f"{crash.words}. The reason is with the sender, not in this process's code",
        confidence=Confidence.LIKELY
        if crash.kind is FaultKind.SENT_FROM_ELSEWHERE
        else Confidence.CERTAIN,
        next_steps=tuple(steps),
        evidence=tuple(evidence),
    )


def _who_sent(pid: int | None) -> str:
    if not pid:
        return (
            "ask on the host: docker events, kubectl describe pod or the scheduler's log around "
            "that time say who stopped the container or the job"
        )
    return (
        f"ps -p {pid} -o pid,user,args if it still lives; else look for that pid in the logs of "
        "the launcher and the scheduler"
    )
