"""``postmortem core``: from a core file to a report."""

from functools import partial
from pathlib import Path
from typing import Literal

from postmortem.analyses.masking import Masking
from postmortem.analyses.places import with_source_of_core
from postmortem.background import Background
from postmortem.diagnose import rule
from postmortem.diagnose.core.case import CoreCase, crashed_extension, told_by_stacks, unread
from postmortem.diagnose.core.caught import at_failure, failure
from postmortem.diagnose.core.fault_kind import classify
from postmortem.present.core.report import Shown, core_report
from postmortem.present.core.view import core_view
from postmortem.readers.core_reading import CoreReading, reading_core
from postmortem.readers.core_stacks import find_gdb_unseen, stacks_and_binary
from postmortem.readers.fault_file import looked_up
from postmortem.readers.gdb_options import GdbOptions, MergedThreads
from postmortem.readers.known_text import known_in
from postmortem.readers.opening import Progress
from postmortem.readers.python_frames import with_python_frames
from postmortem.readers.versions import of_modules
from postmortem.records import record, replace
from postmortem.report.model import Report


@record
class CoreOptions:
    """What the user asked for."""

    executable: Path | None = None
    sysroot: str | None = None
    engine: Literal["auto", "native", "gdb"] = "auto"
    gdb: GdbOptions = GdbOptions()
    shown: Shown = Shown()
    redact: bool = True
    temp_dir: Path | None = None


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
        gdb = Background(partial(find_gdb_unseen, options.gdb.path))
    rule.load()
    facts, source = reading.facts(tid=options.gdb.tid)
    exact = facts.core.origin != "tool"
    signal, fault = failure(facts.signal, facts.fault, facts.caught, exact_registers=exact)
    stacks, binary = MergedThreads(facts.threads, "native stacks"), None
    if gdb is not None:
        asked = replace(options.gdb, always=options.engine == "gdb", sysroot=options.sysroot)
        extension = crashed_extension(facts, signal, fault)
        core = str(reading.opened.path)
        stacks, binary = stacks_and_binary(core, facts, extension, asked, gdb, progress)

    def written(language: str) -> str | None:
        from postmortem.readers.java_report import java_frames_beside

        return java_frames_beside(reading.path, facts.process.pid) if language == "Java" else None

    threads, remarks = with_python_frames(stacks.threads, facts.python_stacks)
    problems = (*facts.problems, *stacks.problems, *remarks, *unread(threads, written))
    facts = told_by_stacks(facts, threads)
    text = stacks.instruction_text
    fault = looked_up(facts, signal, fault, text, sysroot=options.sysroot)
    then = at_failure(threads, signal, facts.caught)
    kind = classify(signal, fault, then, facts.core, facts.process)
    masking = Masking(
        redact=options.redact,
        env=(*facts.process.env, *facts.process.initial_env),
        argv=(facts.process.argv,),
    )
    facts = masking.core(facts)
    threads, then, fault = masking.facts((threads, then, fault), commands=False)
    case = CoreCase(facts, then, kind, signal, fault, binary)
    words = known_in(case.texts())
    versions = of_modules(facts.modules, facts.process.python_version, facts.process.machine)
    outcome = case.outcome(words, versions)
    view = core_view(case, threads, outcome.diagnoses, asked_tid=options.gdb.tid)
    report = core_report(view, then, source, outcome, problems, options.shown)
    if report.highlights is not None:
        shown = with_source_of_core(report.highlights, facts.process, binary, source.path)
        report = replace(report, highlights=shown)
    report = masking.report(report)
    masked = (f"secrets masked ({masking.count})",) if masking.count else ()
    return replace(report, footer=(stacks.engine, *masked))
