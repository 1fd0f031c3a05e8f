"""The process called abort() itself.

What it means
    Nothing from outside killed the process and no instruction failed: its own code, or a
    library, found something wrong and stopped on purpose, usually after printing why.
How to be sure
    The signal is SIGABRT and its sender is the process. The frame below abort() is who decided.
What to do
    Read the last lines on standard error; other diagnoses of this report say more when they
    know the function that aborted.
"""

from postmortem.diagnose.core.citing import cite_abort, degree_of
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind, may_be_sending
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.core.python_calls import python_call, python_place
from postmortem.diagnose.core.stack_end import has_lost_stack
from postmortem.diagnose.core.stacks import frame_name, is_malloc, plain, site
from postmortem.diagnose.rule import ANY_REASON, Confidence, Finding, Findings, Role, rule
from postmortem.facts.crash import AbortMessage, Signal
from postmortem.facts.process import CoreFile
from postmortem.facts.threads import Thread, Trust


@rule("https://man7.org/linux/man-pages/man3/abort.3.html", role=Role.CONTEXT, yields_to=ANY_REASON)
def aborted_by_itself(crash: Crash, message: AbortMessage | None, core: CoreFile) -> Findings:
    signal = crash.signal
    if crash.kind is not FaultKind.ABORT:
        return
    crashed = crash.crashed
    evidence = [crash.cited]
    title = "the process aborted itself"
    of_abort = signal.name == "SIGABRT"
    sure = (of_abort and bool(signal.code)) or _has_abort(crashed)
    called = sure or may_be_sending(crashed)
    index = _who(crashed) if called else None
    if not called and of_abort:
        title += ", or another one sent it the signal"
    if index is not None:
        frame = crashed.frames[index]
        evidence += crash.frame(index)
        said = python_call(crashed, index)
        if said is not None:
            title += f": {said}"
        elif (sent := _sent(crash)) is not None and crashed.handler_index in range(index):
            title = f"process {sent.sender_pid} sent {sent.name}, whose handler ended this one"
            sure = False  # the siginfo of a handler without SA_SIGINFO may be an older one's
        elif crashed.handler_index in range(index) and not _handled_itself(crashed, index):
            ran = "abort() ran as" if _has_abort(crashed) else "SIGABRT was raised by"
            title += f": {ran} a signal handler" + crash.named(", over", index)
            sure = False  # that is what it did in the end; what the handler was called for is first
        elif frame.kind == "python":  # what it called has no frames: os.abort(), a fatal error, C
            title += python_place(crashed)
        elif frame.function != "??":
            how = "called abort" if _called_abort(crashed, index) else "raised SIGABRT"
            title += f": {frame_name(frame, 60)} {how}"
        elif frame.module and owner(frame) is not Owner.GLIBC:
            title += f" in {file_name(frame.module)}"
            # without names: Debian strips its interpreter; ctypes calls by libffi
            if owner(frame) in (Owner.CPYTHON, Owner.LIBFFI):
                title += python_place(crashed)
    meaning = ""
    words = " ".join(message.text.split()) if message is not None else ""
    if message is not None and words:
        # glibc's own last words (__libc_fatal) are the reason; who spoke them is in the evidence.
        fatal = message.match("libc-fatal")
        title = f"the C library stopped the process: {fatal['what'] if fatal else words}"
        meaning = _STDIO if fatal is not None and fatal["stdio"] else ""
        evidence.insert(0, cite_abort(message))
    elif _is_nobody(crashed, index) and has_lost_stack(core, crashed):
        title += "; the core was cut before the stack that says why"
    yield Finding(
        title=title,
        cause=crash.words + meaning,
        # Without siginfo nobody says who sent the signal, unless abort() stands there.
        confidence=degree_of(message)
        if sure
        else Confidence.LIKELY
        if called or words
        else Confidence.POSSIBLE,
        next_steps=("read the last lines that the process wrote to standard error",),
        evidence=tuple(evidence),
    )


_STDIO = (
    "; stdio was given a FILE that is not open: closed before (fclose twice, or use after fclose), "
    "overwritten, or made by another C library in the same process"
)


def _who(thread: Thread) -> int | None:
    """Return the index of the frame that decided: not the allocator, not Py_FatalError's parts."""
    start = site(thread)
    if start is None:
        return None
    python = any("Py_Fatal" in frame.function for frame in thread.frames[:16])
    for index in range(start, len(thread.frames)):
        frame = thread.frames[index]
        of_python = python and ("fatal_error" in frame.function or "Py_Fatal" in frame.function)
        if frame.trust is Trust.SCAN:
            return None  # a word of the stack: maybe of an earlier call
        if not is_malloc(frame) and not of_python:
            return index
    return start


def _is_nobody(thread: Thread, index: int | None) -> bool:
    return index is None or (index == 0 and thread.frames[0].function == "??")


def _sent(crash: Crash) -> Signal | None:
    """Return what another process sent, where its handler still runs here or in another thread."""
    threads = (crash.crashed, *crash.threads.others())
    signals = (thread.handles for thread in threads)
    return next((sent for sent in signals if sent is not None and sent.code_number == 0), None)


def _called_abort(thread: Thread, index: int) -> bool:
    """Return whether abort() stands between the signal and a frame, as far as names tell.

    raise(SIGABRT), as tests and run-times of other languages call it, is not abort(): no handler is
    reset, and it comes back where the signal is blocked.
    """
    between = [plain(frame.function) for frame in thread.frames[:index]]
    return not between or "abort" in between or "??" in between or not set(between) & _RAISES


def _handled_itself(thread: Thread, index: int) -> bool:
    """Return whether the handler was called for this very signal: what it found had raised it."""
    found = thread.frames[(thread.handler_index or 0) + 1 : index]
    return not {plain(frame.function) for frame in found}.isdisjoint({"abort", *_RAISES})


_RAISES = {"raise", "gsignal", "kill", "tgkill", "pthread_kill"}


def _has_abort(thread: Thread) -> bool:
    return any(plain(f.function) == "abort" for f in thread.frames[:16])
