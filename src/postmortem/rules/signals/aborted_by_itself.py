"""The process called abort() itself."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.facts.crash import Signal
from postmortem.facts.fault_kind import FaultKind
from postmortem.facts.fault_words import explain
from postmortem.facts.threads import Thread, Threads
from postmortem.report.model import Confidence, Evidence, Role
from postmortem.rules.citing import cite_frame, cite_python
from postmortem.rules.names import clip, short
from postmortem.rules.owners import Owner, file_name, owner
from postmortem.rules.rule import Finding, rule
from postmortem.rules.stacks import is_malloc, plain, python_index, site


@rule(
    role=Role.CONTEXT,
    references=("https://man7.org/linux/man-pages/man3/abort.3.html",),
    fallback=True,
)
def aborted_by_itself(
    kind: FaultKind, signal: Signal, threads: Threads | None
) -> Iterator[Finding]:
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
    if kind is not FaultKind.ABORT:
        return
    crashed = threads.crashed if threads is not None else None
    evidence = [
        Evidence(f"signal {signal.name} {signal.code or ''}".rstrip(), explain(kind, signal))
    ]
    title = "the process aborted itself"
    index = _who(crashed) if crashed is not None else None
    if crashed is not None and index is not None:
        frame = crashed.frames[index]
        evidence.extend([cite_frame(crashed, index), *cite_python(crashed)])
        if plain(frame.function) in ("os_abort", "os_abort_impl"):
            title += f": Python code called os.abort(){_python_line(crashed)}"
        elif frame.function != "??":
            title += f": {short(frame.function, 60)} called abort"
        elif frame.module and owner(frame) is not Owner.GLIBC:
            title += f" in {file_name(frame.module)}"
            if owner(frame) is Owner.CPYTHON:  # without names: Debian strips its interpreter
                title += _python_line(crashed)
    yield Finding(
        title=clip(title, 100),
        cause=explain(kind, signal),
        confidence=Confidence.CERTAIN,
        next_steps=("read the last lines that the process wrote to standard error",),
        evidence=tuple(evidence),
    )


def _python_line(thread: Thread) -> str:
    """Return `` (step at train.py:8)`` of the line that led here, or nothing."""
    at = python_index(thread)
    line = thread.frames[at] if at is not None else None
    if line is None or not line.file or not line.line:
        return ""
    return f" ({clip(line.function, 40)} at {file_name(line.file)}:{line.line})"


def _who(thread: Thread) -> int | None:
    """Return the index of the frame that decided: not the allocator, not Py_FatalError's parts."""
    start = site(thread)
    if start is None:
        return None
    python = any("Py_Fatal" in frame.function for frame in thread.frames[:16])
    for index in range(start, len(thread.frames)):
        frame = thread.frames[index]
        of_python = python and ("fatal_error" in frame.function or "Py_Fatal" in frame.function)
        if not is_malloc(frame) and not of_python:
            return index
    return start
