"""A check of the C library found that a buffer was written past."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.facts.crash import AbortMessage
from postmortem.facts.fault_kind import FaultKind
from postmortem.facts.threads import Threads
from postmortem.patterns import Pattern
from postmortem.report.model import Confidence, Evidence, Role
from postmortem.rules.citing import cite_abort, cite_frame, cite_python
from postmortem.rules.names import clip, short
from postmortem.rules.rule import Finding, rule
from postmortem.rules.stacks import caller, plain

_MESSAGE = Pattern(
    r"stack smashing detected|buffer overflow detected|%n in writable segment|"
    r"longjmp causes uninitialized stack frame"
)
_FRAMES = {"stack_chk_fail", "fortify_fail", "chk_fail", "stack_chk_fail_local"}


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
    yield Finding(
        title=clip(f"{what}{where}", 100),
        cause=(
            f"a local array{where} was written past its end; the check at the function's return "
            "found it"
            if smashed
            else f"a copy into a buffer of known size{where} would have gone past its end, and the "
            "C library stopped the program first"
        ),
        confidence=Confidence.CERTAIN,
        next_steps=(
            f"look at the fixed-size buffers and the copies{where}: which input is longer?",
            "run a small case under AddressSanitizer: it names the variable and the line",
        ),
        evidence=tuple(evidence),
    )
