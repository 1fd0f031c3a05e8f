"""``postmortem core``: from a core file to a report."""

from functools import partial
from pathlib import Path
from typing import Literal

from postmortem.analyses.masking import Masking
from postmortem.analyses.places import core_with_source
from postmortem.background import Background
from postmortem.diagnose import rule
from postmortem.diagnose.core.case import core_case, crashed_extension, told_by_stacks, unread
from postmortem.diagnose.core.caught import failure
from postmortem.present.core.report import Shown, core_report
from postmortem.readers.core_reading import CoreReading, reading_core
from postmortem.readers.core_stacks import find_gdb_unseen, stacks_and_binary
from postmortem.readers.fault_file import looked_up
from postmortem.readers.gdb_options import GdbOptions
from postmortem.readers.known_text import core_with_matches, known_in
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
    find = partial(find_gdb_unseen, options.gdb.path)
    gdb = None if options.engine == "native" else Background(find)
    rule.load()
    facts, source = reading.facts(tid=options.gdb.tid)
    exact = facts.core.origin != "tool"
    signal, fault = failure(facts.signal, facts.fault, facts.caught, exact_registers=exact)
    asked = replace(options.gdb, always=options.engine == "gdb", sysroot=options.sysroot)
    extension, core = crashed_extension(facts, signal, fault), str(reading.opened.path)
    stacks, binary = stacks_and_binary(core, facts, extension, asked, gdb, progress)
    threads, remarks = with_python_frames(stacks.threads, facts.python_stacks)
    elsewhere = partial(reading.java_beside, facts.process.pid)
    problems = (*facts.problems, *stacks.problems, *remarks, *unread(threads, elsewhere))
    facts = told_by_stacks(facts, threads)
    fault = looked_up(facts, signal, fault, stacks.instruction_text, sysroot=options.sysroot)
    masking = Masking(redact=options.redact, process=facts.process)
    facts = masking.core(facts)
    threads, fault = masking.facts((threads, fault))
    facts = core_with_matches(facts, threads.crashed)
    case = core_case(facts, threads, signal, fault, binary)
    versions = of_modules(facts.modules, facts.process.python_version, facts.process.machine)
    outcome = case.outcome(known_in(case.texts()), versions)
    report = core_report(case, threads, source, outcome, problems, options.shown, options.gdb.tid)
    report = masking.report(core_with_source(report, facts.process, binary, source.path))
    masked = (f"secrets masked ({masking.count})",) if masking.count else ()
    return replace(report, footer=(stacks.engine, *masked))
