"""Stacks from two sources: our own walk first, gdb for what only it knows."""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path

from postmortem.errors import DebuggerError
from postmortem.facts.memory import CodeRanges, Module, Modules
from postmortem.facts.source import Problem
from postmortem.facts.threads import Threads
from postmortem.knowledge.modules import stem
from postmortem.readers.gdb import merge, stacks
from postmortem.readers.gdb.find import Gdb, find_gdb
from postmortem.readers.gdb_options import GdbOptions, MergedThreads
from postmortem.readers.opening import Progress
from postmortem.records import replace

_DEADLINE_SECONDS = 60.0
_CPU_SECONDS = 8.0
"""What gdb may use up where nobody asked for it: the report is complete but for arguments."""
_OF_C = {"libc", "libpthread", "ld", "ld-linux-x86-64", "ld-linux-aarch64"}
_SMALL = 16 << 20
"""Bytes of a library whose symbols gdb reads in a few hundredths of a second."""


def with_gdb(
    core: str,
    threads: Threads,
    modules: Modules,
    executable: Module | None,
    options: GdbOptions,
    find: Callable[[], Gdb],
    progress: Progress | None = None,
    *,
    code: CodeRanges | None = None,
) -> MergedThreads:
    """Return the threads with what gdb adds; `find` gives the gdb or says why there is none.

    `code` is where code can be: frames of gdb elsewhere are words of the stack.

    Lines and inlined calls our own reader has; gdb adds arguments, locals, tail calls, and lines
    that are packed in a way that we do not read.

    gdb's time goes into symbol tables (3 of 3.3 s on a torch core for libtorch_cpu.so alone), so it
    loads only modules that stand on a stack and have line tables at hand.
    """
    if options.path is not None:
        find()  # one that was asked for and does not work is an error, needed or not
    load: dict[str, int] | None = _worth_loading(threads, modules)
    if options.always:
        # Under a sysroot gdb looks for the names of the linker's list, we for the kernel's.
        load = _all_but_mismatched(modules) if options.sysroot is None else _usable(modules)
    if load == {}:
        return MergedThreads(threads, "native stacks; no module on them has line tables for gdb")
    usable = executable if executable is not None and executable.status != "mismatch" else None
    read = partial(
        stacks.read_stacks,
        core,
        executable=usable.disk_path if usable is not None else None,
        load=load,
        sysroot=options.sysroot,
        pcs={t.tid: [f.pc for f in t.frames if f.pc is not None] for t in threads},
        tid=options.tid,
        with_locals=options.with_locals or options.values,
        deadline_seconds=options.deadline_seconds or _DEADLINE_SECONDS,
        cpu_seconds=_cpu_seconds(options),
        debuginfod=options.debuginfod,
        progress=progress,
    )
    try:
        answer = read(gdb=find())
        if not answer.version:  # it was taken unseen, and is none that works
            answer = read(gdb=find_gdb())
    except DebuggerError as error:
        if options.path is not None or options.always:
            raise
        problem = Problem("gdb", f"{error.what}: no arguments of native functions", error.hint)
        return MergedThreads(threads, "native stacks", problems=(problem,))
    # Where gdb loaded less, its walk ends early or goes astray; that is no second opinion.
    known = [m.path for m in modules if load is None or m.disk_path in load]
    merged, differences = _merged(threads, answer, known, tell_all=options.always, code=code)
    words = "compared with" if options.always else "lines by"
    return MergedThreads(
        merged,
        f"native stacks, {words} {answer.version}" + ("" if answer.complete else ", incomplete"),
        answer.instruction_text,
        (*answer.problems, *differences),
    )


def _cpu_seconds(options: GdbOptions) -> float | None:
    """Return the limit of gdb's own work; None where the user wants it, or gave a deadline.

    Processor time, not time on the wall: a machine that is busy with other things must not make
    another report of the same core.
    """
    asked = options.always or options.with_locals or options.tid is not None or options.debuginfod
    return None if asked or options.deadline_seconds is not None else _CPU_SECONDS


def _all_but_mismatched(modules: Modules) -> dict[str, int] | None:
    """Return what to load so that nothing of another build is; None if all may be loaded."""
    mismatched = any(module.status == "mismatch" for module in modules)
    return _usable(modules) if mismatched else None


def _usable(modules: Iterable[Module]) -> dict[str, int]:
    usable = (m for m in modules if m.status in ("ok", "unverified"))
    return {m.disk_path: m.bias for m in usable if m.disk_path is not None}


def _worth_loading(threads: Threads, modules: Modules) -> dict[str, int]:
    """Return the files to load: those with lines, and what is small on the way to them.

    gdb cannot unwind through a module that it did not load, and so would lose the arguments of the
    frames behind it (a program's own ones, behind abort() of libc).

    Of large ones it is not enough that they have line tables somewhere: a few objects that were
    assembled with -g make 1 KiB of them in jaxlib's libjax_common.so, and gdb reads its 700,000
    symbols in 7 to 20 s for nothing. A frame must have a line by our own reader.

    The C library alone is not worth a second: its lines are there, and the arguments of its own
    functions (where a distribution's debug files are installed) explain nothing.
    """
    on_stacks = {frame.module for thread in threads for frame in thread.frames}
    with_line = {f.module for thread in threads for f in thread.frames if f.line is not None}
    usable = [m for m in modules if m.path in on_stacks and m.status in ("ok", "unverified")]
    small = {m.path for m in usable if _size(m) <= _SMALL}
    told = [m for m in usable if m.has_debug_lines and m.path in small | with_line]
    if all(stem(m.name) in _OF_C for m in told):
        return {}
    return _usable(m for m in usable if m.path in small or m in told)


def _size(module: Module) -> int:
    try:
        return Path(module.disk_path or module.path).stat().st_size
    except OSError:
        return 0


def _merged(
    threads: Threads,
    answer: stacks.GdbStacks,
    known: Collection[str],
    *,
    tell_all: bool,
    code: CodeRanges | None,
) -> tuple[Threads, tuple[Problem, ...]]:
    """Merge stack by stack, and tell where both disagree on the caller of code that gdb knows.

    `known` are the modules whose unwind tables gdb had; `tell_all` also tells where one of the
    walks is shorter.
    """
    by_tid = {thread.tid: thread for thread in answer.threads}
    items, problems = [], []
    for thread in threads:
        theirs = by_tid.get(thread.tid)
        frames = theirs.frames if theirs is not None else ()
        ended = thread.stopped is None and not thread.skipped_frames
        merged = merge.merge_stack(thread.frames, frames, answer.lines, code=code, ended=ended)
        name = thread.name or (theirs.name if theirs is not None else None)
        items.append(replace(thread, frames=merged.frames, name=name))
        parted = merged.parted_after is not None and merged.parted_after.module in known
        if merged.disagreement is not None and (tell_all or parted):
            problems.append(Problem(f"stack of thread {thread.tid}", merged.disagreement))
    return replace(threads, items=tuple(items)), tuple(problems)
