"""All facts about one core, as the sections take them."""

from postmortem.diagnose.core.case import CoreCase
from postmortem.diagnose.core.fault_words import explain
from postmortem.diagnose.stacks.signature import Signature
from postmortem.facts import crash
from postmortem.facts.memory import BinaryFacts, MemoryTotals, Modules
from postmortem.facts.process import CoreFile, Process
from postmortem.facts.threads import RaisedException, Thread, Threads
from postmortem.records import record
from postmortem.report.model import Diagnosis


@record
class CoreView:
    """What is known about one dead process, and what was concluded from it."""

    core: CoreFile
    process: Process
    threads: Threads
    modules: Modules
    memory: MemoryTotals
    signal: crash.Signal | None
    explanation: str
    """What the signal means here, in words."""
    fault: crash.Fault | None = None
    abort_message: crash.AbortMessage | None = None
    fatal_python_error: crash.FatalPythonError | None = None
    panic: crash.Panic | None = None
    cpp_exceptions: tuple[crash.CppException, ...] = ()
    binary: BinaryFacts | None = None
    diagnoses: tuple[Diagnosis, ...] = ()
    asked_tid: int | None = None
    """The thread whose stack the user wants to see first."""
    signature: Signature | None = None
    """What cores of the same incident share; None where no frame could be read."""

    @property
    def python_exception(self) -> RaisedException | None:
        """The Python exception of the crashed thread."""
        crashed = self.threads.crashed
        return None if crashed is None else crashed.python_exception

    @property
    def cpp_exception(self) -> crash.CppException | None:
        """The C++ exception in flight: that of the crashed thread before any other.

        One that was being handled is not in flight.
        """
        crashed = self.threads.crashed
        states = ("uncaught", "unwinding")  # the one that ended the process first
        flying = [e for state in states for e in self.cpp_exceptions if e.state == state]
        own = [e for e in flying if crashed is not None and e.tid == crashed.tid]
        return next(iter((*own, *flying)), None)

    @property
    def shown_thread(self) -> Thread | None:
        """The thread that the report opens with: the one asked for, else the crashed one.

        In a snapshot of a live process it is the main one.
        """
        asked = next((t for t in self.threads if t.tid == self.asked_tid), None)
        return asked or self.threads.crashed or self.threads.main or next(iter(self.threads), None)


def core_view(
    case: CoreCase, threads: Threads, diagnoses: tuple[Diagnosis, ...], *, asked_tid: int | None
) -> CoreView:
    """Return what is to be shown of a case; `threads` are those of the end."""
    facts = case.facts
    return CoreView(
        core=facts.core,
        process=facts.process,
        threads=threads,
        modules=facts.modules,
        memory=facts.memory,
        signal=case.signal,
        explanation=explain(case.kind, case.signal, case.fault, case.threads, facts.process),
        fault=case.fault,
        abort_message=facts.abort_message,
        fatal_python_error=facts.fatal_python_error,
        panic=facts.panic,
        cpp_exceptions=facts.cpp_exceptions,
        binary=case.binary,
        diagnoses=diagnoses,
        asked_tid=asked_tid,
        signature=case.signature(),
    )
