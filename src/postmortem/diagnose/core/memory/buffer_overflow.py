"""A check of the C library found that a buffer was written past."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.diagnose.core.citing import cite_abort, cite_frame, cite_python
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.stacks import caller, plain
from postmortem.diagnose.names import clip, short
from postmortem.diagnose.rule import Finding, rule
from postmortem.facts.crash import AbortMessage
from postmortem.facts.threads import Threads
from postmortem.patterns import Pattern
from postmortem.report.model import Confidence, Evidence, Role

_MESSAGE = Pattern(
    r"stack smashing detected|buffer overflow detected|%n in writable segment|"
    r"longjmp causes uninitialized stack frame",
    words=(
        "stack smashing detected",
        "buffer overflow detected",
        "%n in writable segment",
        "longjmp causes uninitialized",
    ),
)
_FRAMES = {"stack_chk_fail", "fortify_fail", "chk_fail", "stack_chk_fail_local"}
_SMASHED = (
    "the guard value behind the local arrays{where} was overwritten; the check at the function's "
    "return found it. A local array was written past its end, or the stack was used by other code "
    "meanwhile (a pointer to a local that was gone, longjmp to a function that had returned)",
    "look at the fixed-size buffers and the copies{where}: which input is longer?",
)
_COPY = (
    "a copy into a buffer of known size{where} would have gone past its end, and the C library "
    "stopped the program first",
    "look at the fixed-size buffers and the copies{where}: which input is longer?",
)
# Checks that have nothing to do with a copy: by message, by function (debug/ in glibc).
_CHECKS: tuple[tuple[str, set[str], str, str, str], ...] = (
    (
        "%n in writable segment",
        set(),
        "%n in a format string that can be written",
        "printf was given a format with %n{where}, and the format lies in memory that can be "
        "written: text from outside is used as a format string (an attack, or a file name or "
        'message with a "%n" in it)',
        'print such text with printf("%s", text){where}',
    ),
    (
        "longjmp causes uninitialized stack frame",
        set(),
        "longjmp to a function that had returned",
        "longjmp{where} would have gone to a frame that is no longer on the stack: the function "
        "that called setjmp had returned, or it belongs to another stack (a coroutine)",
        "find the setjmp of that jmp_buf{where}: its function must still be running",
    ),
    (
        "bit out of range 0 - FD_SETSIZE on fd_set",
        {"fdelt_warn", "fdelt_chk"},
        "file descriptor of 1024 or more in FD_SET (select)",
        "a descriptor that does not fit into an fd_set was used{where} with FD_SET or its like: "
        "select() knows descriptors up to 1023, and the process has more files open than that",
        "use poll() or epoll instead of select(){where}; find out why so many files are open (ls "
        "/proc/PID/fd), or lower ulimit -n to 1024 to fail earlier and plainly",
    ),
)


@rule(
    role=Role.ROOT,
    references=(
        "https://gcc.gnu.org/onlinedocs/gcc/Instrumentation-Options.html",
        "https://man7.org/linux/man-pages/man7/feature_test_macros.7.html",
    ),
)
def buffer_overflow(
    kind: FaultKind, threads: Threads | None, message: AbortMessage | None
) -> Iterator[Finding]:
    """A check of the C library found that a buffer was written past.

    What it means
        "stack smashing detected": the function that was returning had a local array written past
        its end. "buffer overflow detected": a copy into a buffer of known size was too long
        (FORTIFY_SOURCE); the copy did not happen.

    How to be sure
        The C library's message says it, or its check (__stack_chk_fail, __chk_fail) is on the
        stack. The first function outside the C library is the one whose buffer it was.

    What to do
        Look at the local arrays and the copies in that function.
    """
    if kind is not FaultKind.ABORT:
        return
    crashed = threads.crashed if threads is not None else None
    text = message.text if message is not None else ""
    names = {plain(frame.function) for frame in crashed.frames[:8]} if crashed else set()
    found = _MESSAGE.search(text)
    if found is None and not names & _FRAMES:
        return
    smashed = "smashing" in text or "stack_chk_fail" in names
    evidence: list[Evidence] = [cite_abort(message)] if found and message else []
    where = ""
    index = caller(crashed) if crashed is not None else None
    if crashed is not None and index is not None:
        evidence.extend([cite_frame(crashed, index), *cite_python(crashed)])
        if crashed.frames[index].function != "??":
            where = f" in {short(crashed.frames[index].function)}"
    what = found.group(0) if found else ("stack smashing" if smashed else "buffer overflow")
    check = next((c for c in _CHECKS if c[0] in text or c[1] & names), None)
    title, cause, step = (
        (what, *_SMASHED) if smashed else check[2:] if check is not None else (what, *_COPY)
    )
    yield Finding(
        title=clip(f"{title}{where}", 100),
        cause=cause.format(where=where),
        confidence=Confidence.CERTAIN,
        next_steps=(
            step.format(where=where),
            "run a small case under AddressSanitizer: it names the variable and the line",
        ),
        evidence=tuple(evidence),
    )
