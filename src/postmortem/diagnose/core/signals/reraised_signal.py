"""A handler inside the process caught a fault and sent the signal again.

What it means
    faulthandler, PyTorch's DataLoader workers, absl or another library handles fatal signals:
    it prints something and then raises the same signal again. The core therefore shows the
    copy: the address of the fault is lost, but the stack still holds the place.
How to be sure
    siginfo says that the process sent the signal to itself, and a signal frame stands on the
    stack. Without one, the program may have raised the signal on purpose.
What to do
    Read what the handler printed on standard error; read the frames beyond the signal frame.
"""

from postmortem import thresholds
from postmortem.diagnose.core.caught import fault_elsewhere
from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind, is_sending
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.core.pyobject_fault import object_fault
from postmortem.diagnose.core.python_calls import python_call, python_place
from postmortem.diagnose.core.recursion import recursion
from postmortem.diagnose.core.stacks import is_lone_word, place, site
from postmortem.diagnose.names import bare, short
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.crash import Signal
from postmortem.facts.threads import Frame, Thread
from postmortem.patterns import Pattern

_WORDS = {
    "SIGSEGV": "invalid memory access",
    "SIGBUS": "bus error",
    "SIGILL": "illegal instruction",
    "SIGFPE": "arithmetic fault",
    "SIGTRAP": "trap",
}


@rule("https://docs.python.org/3/library/faulthandler.html")
def reraised_signal(crash: Crash) -> Findings:
    signal = crash.signal
    if crash.kind is not FaultKind.RERAISED:
        return
    crashed = crash.crashed
    index = crashed.handler_index
    is_left = not crash.threads.others() and crashed.register("orig_rax") == _NO_CALL
    evidence = [crash.cited]
    if index is not None and index + 1 < len(crashed.frames):
        evidence += crash.frame(index + 1)
        title = f"{_WORDS.get(signal.name, 'a fault')}{place(crashed, index + 1)}"
        cause = crash.words
    elif (failed := fault_elsewhere(crash.threads)) is not None:
        thread, index, words = failed
        evidence.extend([cite_frame(thread, index), *cite_python(thread)])
        title = f"{words}; another thread raised {signal.name} for its handler"
        cause = (
            f"thread {thread.tid} failed, and its handler left it to thread "
            f"{crashed.tid} to raise {signal.name}: that one is the "
            "messenger"
        )
    else:
        title, cause, seen = _without_handler(signal, crashed, is_left)
        evidence.extend(seen)
        if _is_on_purpose(crashed) or _is_hit(crashed):
            yield Finding(
                title=title,
                cause=cause,
                confidence=Confidence.LIKELY,
                next_steps=(
                    f"search the program, its libraries and its tests for who sends {signal.name}",
                    "see what the threads in this core were doing: a watchdog sends signals to "
                    "get a core of what is stuck",
                ),
                evidence=tuple(evidence),
            )
            return
    cycle = recursion(crashed.frames)
    overflow = cycle is not None and cycle.frames >= thresholds.OVERFLOW_FRAMES
    yield Finding(
        title=title,
        cause=cause,
        confidence=Confidence.LIKELY if is_left or index is not None else Confidence.POSSIBLE,
        next_steps=_steps(crashed),
        evidence=tuple(evidence),
        role=_role(overflow, object_fault(crash.kind, signal, crash.threads) is not None),
    )


def _role(is_overflow: bool, is_object: bool) -> Role | None:
    if is_overflow:
        return Role.CONTEXT
    return Role.CONTRIBUTING if is_object else None


_NO_CALL = (1 << 64) - 1
"""What x86-64 keeps as the number of the system call of a thread that is in none."""


def _without_handler(
    signal: Signal, crashed: Thread, is_left: bool
) -> tuple[str, str, list[Evidence]]:
    """Return title, cause and evidence where no signal frame shows on the stack."""
    if crashed.stopped is not None:
        cause = (
            f"the process sent {signal.name} to itself, as handlers do that print and raise a "
            "fault again (faulthandler, DataLoader workers), or by a plain raise(); the frames "
            "that would show which are not in the core"
        )
        title = (
            f"the process raised {signal.name} itself, maybe in a handler of it; the stack below "
            "is lost"
        )
        return title, cause, [Evidence(f"thread {crashed.tid}", crashed.stopped)]
    at = site(crashed)
    if at is not None and _is_on_purpose(crashed):
        who = python_call(crashed, at) or _raiser(crashed.frames[at])
        cause = (
            f"the whole stack is there, and no signal handler is on it: the code itself sent "
            f"{signal.name} to its own process (a test, a crash on purpose, a watchdog). No "
            "instruction of this stack failed; a handler that had left by siglongjmp, or one of "
            "Python, would not show"
        )
        title = f"the process sent itself {signal.name} on purpose: {who}"
        return title, cause, [cite_frame(crashed, at), *cite_python(crashed)]
    if _is_hit(crashed):
        cause = (
            f"this thread was not raising anything: another thread of the same process sent it "
            f"{signal.name} (pthread_kill, tgkill or kill). No instruction failed here, and this "
            "stack shows only what the thread was doing at that moment"
        )
        seen = [cite_frame(crashed, 0), *cite_python(crashed)]
        return f"another thread of the process sent {signal.name}", cause, seen
    if is_left:
        cause = (
            f"the only thread sent itself {signal.name} and was in no system call when it came: a "
            "handler of that signal had raised it again, and it came as the handler returned to "
            "the instruction that failed"
        )
        title = f"{_WORDS.get(signal.name, 'a fault')}{place(crashed)}"
        return title, cause, [cite_frame(crashed, 0), *cite_python(crashed)]
    cause = (
        f"no frame of a handler shows on the stack: {signal.name} was raised on purpose (a test, "
        "os.kill, raise()), or by a handler whose frames cannot be read"
    )
    title = f"the process sent itself {signal.name}"
    if at is None:
        return title, cause, []
    name = short(crashed.frames[at].function)
    by = f" (in {name})" if name != "??" else ""
    by = python_place(crashed) if is_lone_word(crashed, at) else by
    return title + by, cause, [cite_frame(crashed, at)]


_RAISING = Pattern(
    r"^(_*(GI_+|libc_)?(raise|gsignal|kill|killpg|tgkill|sigqueue|pthread_(kill|sigqueue))|__pthread_kill_\w+)$"
)
_START = Pattern(r"^(_start|__libc_start_main\w*|start_thread|clone3?)$")


def _is_raising(thread: Thread) -> bool:
    named = any(_RAISING.search(bare(frame.function)) for frame in thread.frames[:3])
    return named or is_sending(thread)


def _raiser(frame: Frame) -> str:
    if frame.function == "??" and frame.module:
        return f"raised in {file_name(frame.module)}"
    return f"raised by {short(frame.function, 40)}"


def _is_on_purpose(thread: Thread) -> bool:
    """Whether the thread called kill() or raise() and no handler of a signal is on its stack.

    Only a stack that was unwound to its beginning, without guesses, can tell that.
    """
    whole = bool(thread.frames) and _START.search(bare(thread.frames[-1].function)) is not None
    guessed = any(frame.trust in ("scan", "frame_pointer") for frame in thread.frames)
    return _is_raising(thread) and whole and not guessed and thread.handler_index is None


def _is_hit(thread: Thread) -> bool:
    """Whether the thread was in some other call of the C library when the signal came."""
    names = [bare(frame.function) for frame in thread.frames[:3]]
    if (
        is_sending(thread)
        or not names
        or names[0] == "??"
        or owner(thread.frames[0]) is not Owner.GLIBC
    ):
        return False
    return not any(
        _RAISING.search(name) or "abort" in name or "signal" in name.lower() for name in names
    )


def _steps(thread: Thread) -> tuple[str, str]:
    if thread.index_of(r"^handler_SIG(SEGV|BUS|FPE)\b", within=12) is not None:
        # torch/csrc/DataLoader.cpp: its workers catch these signals, print, and raise them again
        return (
            'read "ERROR: Unexpected … encountered in worker" on standard error; the parent only '
            "says that the worker was killed",
            "run once with num_workers=0: the same sample then fails in the main process, with "
            "its address in the core",
        )
    return (
        "read the last lines that the process wrote to standard error: the handler printed "
        "there what it caught",
        "run once without the handler (PYTHONFAULTHANDLER=0, no faulthandler.enable()) to get "
        "a core with the address",
    )
