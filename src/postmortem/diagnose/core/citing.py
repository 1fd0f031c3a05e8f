"""Evidence as a diagnosis cites it."""

from postmortem.diagnose.core.owners import file_name
from postmortem.diagnose.core.recursion import Recursion
from postmortem.diagnose.core.stacks import python_index
from postmortem.diagnose.core.waiting_caller import waiting_caller
from postmortem.diagnose.names import bare, clip, short
from postmortem.facts.crash import AbortMessage, CppException, Panic
from postmortem.facts.threads import Frame, Thread, Threads
from postmortem.records import replace
from postmortem.report.model import Confidence, Evidence

TEXT_LIMIT = 600
"""Characters of a message that evidence quotes; c10 errors carry whole backtraces."""


def cite_frame(thread: Thread, index: int) -> Evidence:
    """Return a frame with its place."""
    place = index + thread.left_out
    words = frame_words(thread.frames[index])
    return Evidence(f"thread {thread.tid} frame {place}", words, (thread.tid, place))


def frame_words(frame: Frame) -> str:
    """Return a frame in one line: function, file and line or module."""
    name = clip(bare(frame.function), 160)
    if frame.file and frame.line:
        return f"{name} ({file_name(frame.file)}:{frame.line})"
    return f"{name} ({file_name(frame.module)})" if frame.module else name


def cite_python(thread: Thread, threads: Threads | None = None) -> tuple[Evidence, ...]:
    """Return the Python line of a thread, if its Python frames are known.

    With `threads`, a worker of a native team is shown with the Python line that it worked for.
    """
    index = python_index(thread)
    if index is not None:
        return (cite_frame(thread, index),)
    waiting = waiting_caller(threads) if threads is not None else None
    index = python_index(waiting) if waiting is not None else None
    if waiting is None or index is None:
        return ()
    seen = cite_frame(waiting, index)
    return (replace(seen, what=f"{seen.what}, which waits for the crashed worker"),)


def cite_exception(exception: CppException) -> Evidence:
    """Return a C++ exception with its message."""
    how = "" if exception.found_by == "tls" else " (found on the stack)"
    text = f"{exception.type}: {exception.what}" if exception.what else exception.type
    return Evidence(f"C++ exception of thread {exception.tid}{how}", clip(text, TEXT_LIMIT))


def cite_abort(message: AbortMessage) -> Evidence:
    """Return what the C library printed before it aborted."""
    of = "" if message.of_this_end else " (or of an abort before: the stack does not tell)"
    return Evidence(f"abort message of the C library{of}", clip(message.text, TEXT_LIMIT))


def cite_words(thread: Thread, panic: Panic) -> Evidence:
    """Return what a language's run-time said."""
    return Evidence(f"thread {thread.tid}", clip(panic.head, TEXT_LIMIT))


def degree_of(message: AbortMessage | None) -> Confidence:
    """Return how sure that message makes what it says; without one the stack says it."""
    stale = message is not None and not message.of_this_end
    return Confidence.LIKELY if stale else Confidence.CERTAIN


def cite_recursion(thread: Thread, cycle: Recursion) -> Evidence:
    """Return the functions that repeat on a stack."""
    shown = ", ".join(short(name, 60) for name in cycle.functions[:6])
    return Evidence(f"thread {thread.tid}", f"at least {cycle.frames} frames repeat: {shown}")
