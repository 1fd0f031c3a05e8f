"""The end of a process as the rules take it: what failed, and where its threads stood."""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.fault_words import explain
from postmortem.diagnose.core.stacks import caller
from postmortem.diagnose.names import short
from postmortem.facts.crash import Fault, Signal
from postmortem.facts.process import Process
from postmortem.facts.threads import Thread, Threads
from postmortem.records import record
from postmortem.report.model import Evidence


@record
class Crash:
    """A process that a signal ended."""

    kind: FaultKind
    signal: Signal
    fault: Fault | None
    threads: Threads
    process: Process

    @property
    def crashed(self) -> Thread:
        """The thread that the signal hit; one without frames where none is known."""
        return self.threads.crashed or Thread(0)

    @property
    def caller(self) -> int | None:
        """The index of its innermost frame outside the C and C++ libraries."""
        return caller(self.crashed)

    @property
    def words(self) -> str:
        """What the signal and its addresses say, in a sentence or two."""
        return explain(self.kind, self.signal, self.fault, self.threads, self.process)

    @property
    def cited(self) -> Evidence:
        """The signal, as a diagnosis cites it."""
        code = f" {self.signal.code}" if self.signal.code else ""
        return Evidence(f"signal {self.signal.name}{code}", self.words)

    def frame(self, index: int | None = 0) -> tuple[Evidence, ...]:
        """Return a frame of the crashed thread, if it has it, and the thread's Python line."""
        thread = self.crashed
        there = index is not None and index < len(thread.frames)
        seen = (cite_frame(thread, index),) if there and index is not None else ()
        return (*seen, *cite_python(thread, self.threads))

    def way(self) -> tuple[Evidence, ...]:
        """Return the innermost frame, its caller outside of the C library and its Python line."""
        index = self.caller
        return (cite_frame(self.crashed, 0), *self.frame(index)) if index else self.frame()

    def named(self, word: str, index: int | None, limit: int = 48) -> str:
        """Return ``" in f"`` of a frame of that thread and `word`; nothing where it has no name."""
        if index is None or self.crashed.frames[index].function == "??":
            return ""
        return f"{word} {short(self.crashed.frames[index].function, limit)}"
