"""``postmortem core``: from a core file to a report."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from postmortem.analyses.background import Background
from postmortem.analyses.core_reading import CoreReading, Progress, reading_core
from postmortem.analyses.engines import GdbOptions, MergedThreads
from postmortem.analyses.masking import Masking
from postmortem.diagnose import rule
from postmortem.diagnose.core.caught import beyond_handler, failure
from postmortem.diagnose.core.fault_kind import FaultKind, classify
from postmortem.diagnose.core.fault_words import explain
from postmortem.diagnose.core.stacks import is_left_over
from postmortem.diagnose.stacks.signature import Signature, crash_signature
from postmortem.errors import EvidenceError
from postmortem.facts.crash import CppException, EarlierExceptions, Fault, earlier_exceptions
from postmortem.facts.known_words import KnownWords
from postmortem.facts.memory import Address, BinaryFacts, MappedFile, Module
from postmortem.facts.process import CoreFile
from postmortem.facts.process_role import process_role
from postmortem.facts.source import Problem, Source
from postmortem.facts.threads import Threads
from postmortem.knowledge.modules import module_kind, stem
from postmortem.knowledge.runtimes import unread_languages
from postmortem.present.core.body import core_body
from postmortem.present.core.view import CoreView
from postmortem.present.headline.core import headline
from postmortem.readers import core as core_reader
from postmortem.readers.files import mapped_file
from postmortem.readers.python_frames import Placements, with_python
from postmortem.readers.versions import of_modules
from postmortem.records import record, replace
from postmortem.report.model import Report, Role

if TYPE_CHECKING:
    from postmortem.readers.gdb.find import Gdb
    from postmortem.report.blocks import Block
    from postmortem.report.card import Highlights

Engine = Literal["auto", "native", "gdb"]

_REMEDIES: Mapping[type, str] = {
    BinaryFacts: "run without --engine native; the module the crash is in must be on this machine",
    KnownWords: "only processes that said something known before they ended have some",
    CppException: "only cores in which a C++ exception was in flight have one",
    EarlierExceptions: "only threads that had a C++ exception before the last have some",
}


@record
class CoreOptions:
    """What the user asked for."""

    executable: Path | None = None
    sysroot: str | None = None
    engine: Engine = "auto"
    gdb: GdbOptions = GdbOptions()
    verbose: bool = False
    all_threads: bool = False
    redact: bool = True
    temp_dir: Path | None = None
    blocks: bool = True
    """Whether the report is to be read; JSON needs only its body.

    Where gdb told values of variables there are blocks all the same: secrets are learnt there.
    """


def analyse(path: Path, options: CoreOptions, progress: Progress | None = None) -> Report:
    """Return the report on a core file; raises EvidenceError when it cannot be read at all."""
    with reading_core(
        path,
        executable=options.executable,
        sysroot=options.sysroot,
        python_locals=options.gdb.with_locals,
        temp_dir=options.temp_dir,
        progress=progress,
    ) as reading:
        return explained(reading, options, progress)


def explained(
    reading: CoreReading, options: CoreOptions, progress: Progress | None = None
) -> Report:
    """Return the report on a core that is being read, as `analyse` does."""
    gdb = None
    if options.engine != "native":
        gdb = Background(partial(_gdb, options.gdb.path))
    rule.load()
    path, opened = reading.path, reading.opened
    try:
        facts = core_reader.facts_of(reading.answer.result(), named=opened.source.path)
    except EvidenceError as error:
        raise EvidenceError(str(path), error.what, offset=error.offset, hint=error.hint) from error
    facts = replace(facts, problems=(*reading.problems, *facts.problems))
    if facts.core.truncated and not facts.threads.items and not facts.modules.items:
        raise _cut_too_early(path, facts.core)
    source = replace(opened.source, truncated=opened.source.truncated or facts.core.truncated)
    return _Analysis(facts, source, options, gdb, progress).report(str(opened.path))


class _Analysis:
    """One core on its way from facts to report."""

    def __init__(
        self,
        facts: core_reader.CoreFacts,
        source: Source,
        options: CoreOptions,
        gdb: Background[Gdb] | None,
        progress: Progress | None,
    ) -> None:
        self._facts = facts
        self._source = source
        self._options = options
        self._progress = progress
        self._gdb = gdb
        self._problems = list(facts.problems)
        self._signal, self._fault_then = failure(
            facts.signal,
            facts.fault,
            facts.caught,
            exact_registers=facts.core.origin != "tool",
        )

    def report(self, core: str) -> Report:
        options, facts = self._options, self._facts
        self._check_thread()
        stacks, binary = self._stacks_and_binary(core)
        self._problems += stacks.problems
        threads = self._with_python(stacks.threads)
        self._problems += _unread(threads)
        role = process_role(facts.process, threads)
        if role is not None:
            facts = self._facts = replace(facts, process=replace(facts.process, role=role))
        fault = self._fault(stacks.instruction_text)
        at_failure = self._at_failure(threads)
        kind = classify(self._signal, fault, at_failure, facts.core, facts.process)
        if facts.abort_message is not None and is_left_over(threads.crashed):
            facts = self._facts = replace(facts, abort_message=None)
        masking = Masking(
            redact=options.redact,
            env=(*facts.process.env, *facts.process.initial_env),
            argv=(facts.process.argv,),
        )
        facts = self._facts = _masked(facts, masking)
        threads, at_failure, fault = masking.facts((threads, at_failure, fault), commands=False)
        outcome = self._outcome(kind, at_failure, fault, binary)
        self._problems += outcome.problems
        view = CoreView(
            core=facts.core,
            process=facts.process,
            threads=threads,
            modules=facts.modules,
            memory=facts.memory,
            signal=self._signal,
            explanation=explain(kind, self._signal, fault, at_failure, facts.process),
            fault=fault,
            abort_message=facts.abort_message,
            fatal_python_error=facts.fatal_python_error,
            panic=facts.panic,
            cpp_exceptions=facts.cpp_exceptions,
            binary=binary,
            diagnoses=outcome.diagnoses,
            asked_tid=options.gdb.tid,
            signature=self._signature(kind, at_failure),
        )
        report = Report(
            kind="core",
            inputs=(self._source,),
            verdict=headline(self._signal, facts.process, outcome.diagnoses, threads=at_failure),
            failed=threads.crashed is not None
            or not threads.items
            or any(d.role is Role.ROOT for d in outcome.diagnoses),
            diagnoses=outcome.diagnoses,
            blocks=_blocks(view, options) if options.blocks or _has_values(threads) else (),
            body=core_body(view, with_locals=options.gdb.with_locals),
            problems=tuple(self._problems),
            skipped=outcome.skipped,
            highlights=_highlights(view, at_failure, self._source) if options.blocks else None,
        )
        footer = stacks.engine
        if options.redact:
            report = masking.report(report)
            if masking.count:
                footer += f" · secrets masked ({masking.count})"
        return replace(report, footer=footer)

    def _check_thread(self) -> None:
        tid = self._options.gdb.tid
        if tid is None or any(thread.tid == tid for thread in self._facts.threads):
            return
        known = [str(thread.tid) for thread in self._facts.threads]
        more = f" and {len(known) - 20} more" if len(known) > 20 else ""
        raise EvidenceError(
            self._source.path,
            f"has no thread {tid}",
            hint="its threads are " + ", ".join(known[:20]) + more,
        )

    def _stacks_and_binary(self, core: str) -> tuple[MergedThreads, BinaryFacts | None]:
        """Ask gdb and lief at once: both take about half a second, one of them elsewhere."""
        options, facts = self._options, self._facts
        if self._gdb is None:
            return MergedThreads(facts.threads, "native stacks"), None
        from postmortem.analyses.stacks import with_gdb  # not paid for by --engine native

        module = self._crashed_extension()
        path = module.disk_path if module is not None and module.status != "mismatch" else None
        binary = Background(partial(_binary, path)) if path is not None else None
        gdb = replace(options.gdb, always=options.engine == "gdb", sysroot=options.sysroot)
        program = next((m for m in facts.modules if m.path == facts.process.executable), None)
        stacks = with_gdb(
            core,
            facts.threads,
            facts.modules,
            program,
            gdb,
            self._gdb.result,
            self._progress,
            code=facts.code,
        )
        try:
            return stacks, binary.result() if binary is not None else None
        except EvidenceError as error:
            self._problems.append(Problem(path or "", error.what, error.hint))
            return stacks, None

    def _with_python(self, threads: Threads) -> Threads:
        """Put the Python frames where their evaluator frames stand."""
        items = []
        placements = Placements()
        for thread in threads:
            stack = self._facts.python_stacks.get(thread.tid)
            if stack is not None:
                thread, remark = with_python(thread, stack, placements)
                if remark is not None:
                    self._problems.append(Problem(f"stack of thread {thread.tid}", remark))
            items.append(thread)
        return replace(threads, items=tuple(items))

    def _at_failure(self, threads: Threads) -> Threads:
        """Return the threads as the rules see them: at the failure, not in what handled it."""
        caught = self._facts.caught
        is_first = self._signal is not None and self._signal.then is not None
        return beyond_handler(threads) if is_first and caught and caught.in_handler else threads

    def _signature(self, kind: FaultKind, threads: Threads) -> Signature | None:
        facts = self._facts
        crashed = threads.crashed
        flying = (e for e in facts.cpp_exceptions if e.state == "uncaught")
        return crash_signature(
            crashed or threads.main,
            self._signal,
            pid=facts.process.pid,
            executable=facts.process.executable,
            overflow=kind is FaultKind.STACK_OVERFLOW,
            abort_message=facts.abort_message,
            exception=next((e for e in flying if crashed and e.tid == crashed.tid), None),
        )

    def _crashed_extension(self) -> Module | None:
        """The module that the crash is in, if it is nobody's that is known well.

        None for signals that no instruction caused: what ended the process is told then by words
        (an exception, a message of the C library), and how a library was linked explains nothing.
        """
        facts = self._facts
        threads = self._at_failure(facts.threads)
        crashed = threads.crashed
        kind = classify(self._signal, self._fault_then, threads, facts.core, facts.process)
        if not kind.is_fault:
            return None
        for frame in crashed.frames if crashed is not None else ():
            module = None if frame.pc is None else self._facts.modules.at(frame.pc)
            if module is None:
                continue
            if module_kind(module.path).area == "your extension":
                return module
            if module_kind(module.path).area not in ("C library", "C++ runtime"):
                return None
        return None

    def _fault(self, instruction_text: str | None) -> Fault | None:
        fault = self._fault_then
        if fault is None:
            return None
        elsewhere = _is_elsewhere(self._facts, self._options)
        is_bus = self._signal is not None and self._signal.name == "SIGBUS"
        file = _file_under(fault.address, elsewhere=elsewhere) if is_bus else None
        if file is not None:
            fault = replace(fault, file=file)
        stood = self._facts.fault
        here = stood is not None and stood.pc.value == fault.pc.value  # gdb shows where it ended
        if here and instruction_text is not None and fault.instruction is not None:
            fault = replace(fault, instruction=replace(fault.instruction, text=instruction_text))
        return fault

    def _outcome(
        self,
        kind: FaultKind,
        threads: Threads,
        fault: Fault | None,
        binary: BinaryFacts | None,
    ) -> rule.Outcome:
        facts = self._facts
        tid = threads.crashed.tid if threads.crashed is not None else None
        flying = (e for e in facts.cpp_exceptions if e.tid == tid and e.state == "uncaught")
        values = (
            kind,
            facts.core,
            facts.process,
            threads,
            facts.modules,
            facts.memory,
            self._signal,
            fault,
            facts.abort_message,
            facts.fatal_python_error,
            facts.panic,
            exception := next(flying, None),
            earlier_exceptions(facts.cpp_exceptions, tid),
            binary,
            self._known_words(threads, exception),
            of_modules(facts.modules, facts.process.python_version, facts.process.machine),
        )
        known = {type(value): value for value in values if value is not None}
        return rule.run(rule.load(), known, remedies=_REMEDIES)

    def _known_words(self, threads: Threads, exception: CppException | None) -> KnownWords | None:
        message, crashed = self._facts.abort_message, threads.crashed
        raised = crashed.python_exception if crashed is not None else None
        texts: list[tuple[str, str, int | None]] = []
        if message is not None:
            texts.append(("abort message", message.text, None))
        if exception is not None and exception.what:
            texts.append(("C++ exception", f"{exception.type}: {exception.what}", exception.tid))
        if raised is not None and crashed is not None:
            texts.append(("Python exception", f"{raised.type}: {raised.message}", crashed.tid))
        if not texts:
            return None
        from postmortem.readers.known_text import known_in

        return known_in(texts)


def _unread(threads: Threads) -> tuple[Problem, ...]:
    """Say of the thread that matters which language's frames in it are not read."""
    thread = threads.crashed or threads.main
    if thread is None:
        return ()
    return tuple(
        Problem(
            f"stack of thread {thread.tid}",
            f"frames of {found.language} are not read: {found.seen}",
            found.remedy,
        )
        for found in unread_languages(thread.frames)
    )


def _has_values(threads: Threads) -> bool:
    frames = (frame for thread in threads for frame in thread.frames)
    return any(frame.arguments or frame.locals for frame in frames)


def _blocks(view: CoreView, options: CoreOptions) -> tuple[Block, ...]:
    from postmortem.present.core.blocks import core_blocks  # not paid for by --json

    return core_blocks(
        view,
        verbose=options.verbose,
        all_threads=options.all_threads,
        with_locals=options.gdb.with_locals,
    )


def _highlights(view: CoreView, at_failure: Threads, source: Source) -> Highlights:
    from postmortem.analyses.places import with_source
    from postmortem.present.core.card import core_highlights

    folders = [value for name, value in view.process.env if name == "PWD"]
    if view.binary is not None:
        folders.append(str(Path(view.binary.path).parent))
    try:
        written = Path(source.path).stat().st_mtime
    except OSError:
        written = None
    return with_source(core_highlights(view, at_failure), folders=folders, ran=written)


def _cut_too_early(path: Path, core: CoreFile) -> EvidenceError:
    what = (
        f"is cut before the state of its first thread: {core.size_bytes:,} of at least "
        f"{core.expected_bytes:,} bytes are there, and nothing of the process is among them"
    )
    hint = "copy it again if the original is whole; a full disk, a quota or ulimit -c cuts cores"
    return EvidenceError(str(path), what, hint=hint)


def _is_elsewhere(facts: core_reader.CoreFacts, options: CoreOptions) -> bool:
    """Whether the core is of another machine, whose data files are not the ones that lie here.

    Another C library than the one here is the root of another file system, too.
    """
    if options.sysroot is not None or facts.process.machine != os.uname().machine:
        return True
    of_c = [m.status for m in facts.modules if stem(m.path.rpartition("/")[2]) == "libc"]
    return bool(of_c) and not any(status in ("ok", "unverified") for status in of_c)


def _file_under(address: Address | None, *, elsewhere: bool) -> MappedFile | None:
    """The file that is mapped at an address, as it is now."""
    if address is None or address.path is None or address.file_offset is None:
        return None
    if address.kind not in ("file", "shared memory", "module"):
        return None
    path = address.path.removesuffix(" (deleted)")
    if elsewhere:
        deleted = path != address.path
        return MappedFile(
            path, address.file_offset, exists=False, deleted_then=deleted, elsewhere=True
        )
    return mapped_file(path, address.file_offset, deleted=path != address.path)


def _masked(facts: core_reader.CoreFacts, masking: Masking) -> core_reader.CoreFacts:
    """Mask what words of the process the facts have, before a rule makes a title of them.

    What is shown beside its name is masked by that: a short secret has no other mark.
    """
    if masking.redactor is None:
        return facts
    process = replace(
        facts.process,
        env=masking.redactor.env(facts.process.env),
        initial_env=masking.redactor.env(facts.process.initial_env),
    )
    process, abort, fatal, panic, flying = masking.facts(
        (
            process,
            facts.abort_message,
            facts.fatal_python_error,
            facts.panic,
            facts.cpp_exceptions,
        )
    )
    return replace(
        facts,
        process=process,
        abort_message=abort,
        fatal_python_error=fatal,
        panic=panic,
        cpp_exceptions=flying,
    )


def _binary(path: str) -> BinaryFacts:
    from postmortem.readers.elf import read_binary  # lief takes 0.4 s to import

    return read_binary(path)


def _gdb(path: str | None) -> Gdb:
    from postmortem.readers.gdb.find import find_gdb

    return find_gdb(path, probe=False)
