"""A core as its rules see it: at the failure, not in what handled it."""

from collections.abc import Callable, Mapping

from postmortem.diagnose import rule
from postmortem.diagnose.core.caught import at_failure
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind, classify
from postmortem.diagnose.core.stacks import is_left_over
from postmortem.diagnose.stacks.signature import Signature, crash_signature
from postmortem.facts.core import CoreFacts
from postmortem.facts.crash import (
    CppException,
    EarlierExceptions,
    Fault,
    Signal,
    earlier_exceptions,
)
from postmortem.facts.last_words import KnownWords
from postmortem.facts.memory import BinaryFacts, Module
from postmortem.facts.process_role import process_role
from postmortem.facts.source import Problem
from postmortem.facts.threads import Threads
from postmortem.facts.versions import Versions
from postmortem.knowledge.modules import module_kind
from postmortem.knowledge.runtimes import unread_languages
from postmortem.records import record, replace

_REMEDIES: Mapping[type, str] = {
    BinaryFacts: "run without --engine native; the module the crash is in must be on this machine",
    KnownWords: "only processes that said something known before they ended have some",
    CppException: "only cores in which a C++ exception was in flight have one",
    EarlierExceptions: "only threads that had a C++ exception before the last have some",
}


@record
class CoreCase:
    """What is known of the failure."""

    facts: CoreFacts
    threads: Threads
    """As they stood at the failure."""
    kind: FaultKind
    signal: Signal | None
    """The one that was the failure; `facts.signal` ended the process."""
    fault: Fault | None
    binary: BinaryFacts | None

    def texts(self) -> list[tuple[str, str, int | None]]:
        """Return the words of the process by which something may be known: where, text, thread."""
        message, crashed, exception = self.facts.abort_message, self.threads.crashed, self._flying()
        raised = crashed.python_exception if crashed is not None else None
        texts: list[tuple[str, str, int | None]] = []
        if message is not None:
            texts.append(("abort message", message.text, None))
        if exception is not None and exception.what:
            texts.append(("C++ exception", f"{exception.type}: {exception.what}", exception.tid))
        if raised is not None and crashed is not None:
            texts.append(("Python exception", f"{raised.type}: {raised.message}", crashed.tid))
        return texts

    def outcome(self, words: KnownWords | None, versions: Versions) -> rule.Outcome:
        """Return what the rules conclude; `words` are the known ones among `texts`."""
        facts, crashed = self.facts, self.threads.crashed
        values = (
            self.kind,
            self.signal and Crash(self.kind, self.signal, self.fault, self.threads, facts.process),
            facts.core,
            facts.process,
            self.threads,
            crashed,
            facts.modules,
            facts.memory,
            self.signal,
            self.fault,
            facts.abort_message,
            facts.fatal_python_error,
            facts.panic,
            self._flying(),
            earlier_exceptions(facts.cpp_exceptions, crashed.tid if crashed is not None else None),
            self.binary,
            words,
            versions,
        )
        known = {type(value): value for value in values if value is not None}
        return rule.run(rule.load(), known, remedies=_REMEDIES)

    def signature(self) -> Signature | None:
        """Return what cores of the same incident share; None where no frame could be read."""
        facts = self.facts
        return crash_signature(
            self.threads.crashed or self.threads.main,
            self.signal,
            pid=facts.process.pid,
            executable=facts.process.executable,
            overflow=self.kind is FaultKind.STACK_OVERFLOW,
            abort_message=facts.abort_message,
            exception=self._flying(),
        )

    def _flying(self) -> CppException | None:
        """Return the C++ exception of the crashed thread that nothing caught."""
        crashed = self.threads.crashed
        tid = crashed.tid if crashed is not None else None
        flying = (e for e in self.facts.cpp_exceptions if e.tid == tid and e.state == "uncaught")
        return next(flying, None)


def core_case(
    facts: CoreFacts,
    threads: Threads,
    signal: Signal | None,
    fault: Fault | None,
    binary: BinaryFacts | None,
) -> CoreCase:
    """Return the case of a core; `threads` are those of the end, `signal` is the failure."""
    then = at_failure(threads, signal, facts.caught)
    kind = classify(signal, fault, then, facts.core, facts.process)
    return CoreCase(facts, then, kind, signal, fault, binary)


def crashed_extension(
    facts: CoreFacts, signal: Signal | None, fault: Fault | None
) -> Module | None:
    """Return the module that the crash is in, if it is nobody's that is known well.

    None for signals that no instruction caused: what ended the process is told then by words
    (an exception, a message of the C library), and how a library was linked explains nothing.
    """
    case = core_case(facts, facts.threads, signal, fault, None)
    if not case.kind.is_fault:
        return None
    crashed = case.threads.crashed
    for frame in crashed.frames if crashed is not None else ():
        module = None if frame.pc is None else facts.modules.at(frame.pc)
        if module is None:
            continue
        if module_kind(module.path).area == "your extension":
            return module
        if module_kind(module.path).area not in ("C library", "C++ runtime"):
            return None
    return None


def told_by_stacks(facts: CoreFacts, threads: Threads) -> CoreFacts:
    """Return facts with the role of the process, and an abort message only if it is of this end."""
    role, message = process_role(facts.process, threads), facts.abort_message
    if role is not None:
        facts = replace(facts, process=replace(facts.process, role=role))
    if message is not None and (left := is_left_over(threads.crashed)) is not False:
        message = None if left else replace(message, of_this_end=False)
    return replace(facts, abort_message=message)


def unread(
    threads: Threads, elsewhere: Callable[[str], str | None] = lambda language: None
) -> tuple[Problem, ...]:
    """Say of the thread that matters which language's frames in it are not read.

    `elsewhere` tells where a language's frames were found all the same.
    """
    thread = threads.crashed or threads.main
    if thread is None:
        return ()
    return tuple(
        Problem(
            f"stack of thread {thread.tid}",
            f"frames of {found.language} are not read: {found.seen}",
            elsewhere(found.language) or found.remedy,
        )
        for found in unread_languages(thread.frames)
    )
