"""A core file to facts, through the native reader; no debugger needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from postmortem.facts import crash
from postmortem.facts.core import CoreFacts
from postmortem.facts.memory import Address, CodeRanges, MemoryTotals, Module, Modules
from postmortem.facts.process import CoreFile, Process, SlimSource
from postmortem.facts.source import Problem
from postmortem.facts.threads import Frame, RaisedException, Thread, Threads, Trust
from postmortem.readers.launcher import find_hostname, find_placement
from postmortem.readers.locks import read_waits
from postmortem.readers.native_core import NativeAnswer
from postmortem.readers.origin import Origin, read_origin
from postmortem.readers.python_frames import async_tasks, greenlets, python_stacks
from postmortem.readers.siginfo import code_name, signal_name
from postmortem.records import of_row, replace

if TYPE_CHECKING:
    from postmortem._native import (
        RawCaught,
        RawCore,
        RawFrame,
        RawPythonThread,
        RawSignal,
        RawThread,
    )


def facts_of(answer: NativeAnswer, *, named: str | None = None) -> CoreFacts:
    """Return the facts behind the rows of the native reader.

    `named` is what the user calls the core, where it was unpacked. Threads come with their native
    frames; `python_stacks` holds the Python ones until nothing more is added to those.
    """
    path, raw = named or answer.path, answer.core
    origin = read_origin(path, raw["pid"])
    process, more = _process(raw, origin)
    more = (*more, *_slim_remarks(raw), *_unlisted(raw), *_old_python(raw))
    rows = tuple(Problem(**row) for row in raw["problems"])
    abort_message = raw["abort_message"]
    python = _python_threads(raw)
    return CoreFacts(
        core=CoreFile(
            path, raw["origin"], raw["size_bytes"], raw["expected_bytes"], _slim_source(raw)
        ),
        process=process,
        threads=_threads(raw, origin, python),
        modules=Modules(tuple(Module(**row) for row in raw["modules"])),
        memory=MemoryTotals(
            raw["mapped_bytes"],
            raw["dumped_bytes"],
            tuple((kind, dumped) for kind, _, dumped in raw["memory_by_kind"]),
        ),
        code=CodeRanges(tuple(raw["code"])),
        signal=_signal(raw),
        fault=None if raw["crashed_tid"] is None else _fault(raw, raw["handler_stack"]),
        caught=_caught(raw),
        abort_message=None if abort_message is None else crash.AbortMessage(abort_message),
        fatal_python_error=None
        if raw["python_fatal"] is None
        else crash.FatalPythonError(*raw["python_fatal"]),
        panic=None if raw["panic"] is None else crash.Panic(*raw["panic"]),
        cpp_exceptions=tuple(crash.CppException(**row) for row in raw["exceptions"]),
        python_stacks=python_stacks(row for row in python.values() if row["frames"]),
        problems=answer.problems + rows + more,
    )


def _slim_source(raw: RawCore) -> SlimSource | None:
    row = raw["slim"]
    return None if row is None else of_row(SlimSource, row)


def _unlisted(raw: RawCore) -> tuple[Problem, ...]:
    """What it means that a whole core does not say which files the process had mapped."""
    if raw["modules"] or not raw["threads"] or raw["expected_bytes"] > raw["size_bytes"]:
        return ()
    what = (
        "the core has no list of mapped files (NT_FILE), nor the list of the dynamic loader, so no "
        "function can be named"
    )
    remedy = "give the program that ran: postmortem core CORE --python EXE"
    return (Problem("modules", what, remedy),)


def _old_python(raw: RawCore) -> tuple[Problem, ...]:
    """That no Python line can be told of a version whose structures are not known."""
    version = raw["python_version"]
    parts = [int(part) for part in (version or "").split(".")[:2] if part.isdigit()]
    if raw["python"] is not None or len(parts) < 2 or tuple(parts) >= (3, 8):
        return ()
    what = (
        f"Python {version} is not supported: frames of 3.8 and later are read; of this one only "
        "native frames are"
    )
    remedy = "gdb with python-gdb.py of that version, or pystack, shows its Python lines"
    return (Problem("Python", what, remedy),)


def _slim_remarks(raw: RawCore) -> tuple[Problem, ...]:
    """What a slim core lacks that was not left out by design."""
    row = raw["slim"]
    if row is None:
        return ()
    remarks = []
    if row["source_expected_bytes"] > row["source_bytes"]:
        what = (
            f"the core that it was made from was cut off: {row['source_bytes']:,} of "
            f"{row['source_expected_bytes']:,} bytes were there"
        )
        remarks.append(Problem("slim core", what))
    if row["lost_bytes"]:
        what = (
            f"{row['lost_bytes']:,} bytes of memory did not fit while the core was streamed; "
            "Python frames and values may be missing"
        )
        remedy = "give --slim the process: --pid %P in core_pattern"
        remarks.append(Problem("slim core", what, remedy))
    return tuple(remarks)


def _pairs(entries: list[str]) -> tuple[tuple[str, str], ...]:
    """NAME=value; of a name that comes twice, getenv() takes the first."""
    result: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if equals and name:
            result.setdefault(name, value)
    return tuple(result.items())


def _process(raw: RawCore, origin: Origin) -> tuple[Process, tuple[Problem, ...]]:
    initial = _pairs(raw["initial_env"])
    current = raw["env"]
    env = initial if current is None else _pairs(current)
    variables = dict(env)
    placement = find_placement(variables)
    argv = tuple(raw["argv"])
    problems: tuple[Problem, ...] = ()
    if not argv and raw["command_line"]:
        argv = tuple(raw["command_line"].split(" "))
        problems = (
            Problem(
                "command line",
                "taken from the kernel's summary: the first 79 bytes, arguments with spaces split",
            ),
        )
    process = of_row(
        Process,
        {**raw, **vars(placement)},
        argv=argv,
        env=env,
        env_is_current=current is not None,
        initial_env=initial,
        hostname=origin.hostname or find_hostname(variables),
        crashed_at=origin.crashed_at,
        python_version=_version(raw),
    )
    return process, problems


def _version(raw: RawCore) -> str | None:
    """The more exact of what the interpreter says and what its files are called."""
    said = raw["python"]["version"] if raw["python"] is not None else ""
    return max(said, raw["python_version"] or "", key=len) or None


def _signal(raw: RawCore) -> crash.Signal | None:
    if raw["crashed_tid"] is None:
        return None
    row = raw["signal"]
    if row is None:  # a kernel before 3.7, or a tool that leaves the note out
        number = next((t["signal"] for t in raw["threads"] if t["tid"] == raw["crashed_tid"]), 0)
        return crash.Signal(number, signal_name(number)) if number else None
    return _siginfo(row)


def _siginfo(row: RawSignal) -> crash.Signal:
    number, code = row["number"], row["code"]
    return of_row(
        crash.Signal,
        row,
        name=signal_name(number),
        code_number=code,
        code=None if code is None else code_name(number, code),
    )


def _caught(raw: RawCore) -> crash.Caught | None:
    row = raw["caught"]
    if row is None:
        return None
    return crash.Caught(_siginfo(row["signal"]), _fault(row), row["in_handler"])


def _fault(
    raw: RawCore | RawCaught, handler_stack: tuple[int, int] | None = None
) -> crash.Fault | None:
    pc, sp = raw["pc"], raw["sp"]
    if pc is None or sp is None:
        return None
    return crash.Fault(
        pc=Address(**pc),
        sp=Address(**sp),
        address=raw["fault"] and Address(**raw["fault"]),
        operand=raw["operand"] and Address(**raw["operand"]),
        instruction=raw["instruction"] and crash.Instruction(**raw["instruction"]),
        handler_stack=handler_stack,
    )


class _Frames:
    """Makes frames of rows; threads that stand in the same function share what is made of it.

    250 workers of a pool have 4,000 frames, of which 40 differ, and whatever later asks about a
    frame (its area, its JSON, secrets in it) asks once for each object.
    """

    def __init__(self, raw: RawCore) -> None:
        self._raw = raw
        self._known: dict[tuple[int, str], tuple[RawFrame, tuple[Frame, ...]]] = {}
        # By the id of its rows, which `raw` keeps: the native reader gives equal stacks one list.
        self._stacks: dict[int, tuple[Frame, ...]] = {}

    def stack(self, rows: list[RawFrame]) -> tuple[Frame, ...]:
        """Return the frames of a stack; threads that stand in the same place share them all."""
        known = self._stacks.get(id(rows))
        if known is None:
            known = tuple(frame for row in rows for frame in self.of(row))
            self._stacks[id(rows)] = known
        return known

    def of(self, row: RawFrame) -> tuple[Frame, ...]:
        """Return the calls that were inlined into a frame, and the frame itself."""
        key = row["pc"], row["trust"]
        known = self._known.get(key)
        if known is not None and known[0] == row:
            return known[1]
        frames = tuple(_frames(row, self._raw))
        self._known[key] = row, frames
        return frames


def _frames(row: RawFrame, raw: RawCore) -> Iterator[Frame]:
    """Yield the calls that were inlined into a frame, and the frame itself."""
    module, function = row["module"], row["function"]
    *inlined, (own, file, line) = row["places"] or [(None, None, 0)]
    if function is None:
        function = (None if file is None else own) or "??"
    frame = Frame(
        function=function,
        kind="native",
        pc=row["pc"],
        module=None if module is None else raw["modules"][module]["path"],
        module_offset=row["module_offset"],
        file=file,
        line=None if file is None else line or None,
        trust=_TRUST[row["trust"]],
    )
    for called, its_file, its_line in inlined:
        yield replace(
            frame, function=called or "??", file=its_file, line=its_line or None, inlined=True
        )
    yield frame


_TRUST = {str(trust): trust for trust in Trust}


def _python_threads(raw: RawCore) -> dict[int, RawPythonThread]:
    """Return what the interpreters say of each thread, the innermost one's frames first.

    A thread that runs code in a subinterpreter has a state in each. The one that holds a GIL is the
    innermost; where none does, the newest, with which the interpreters' list begins.
    """
    found: dict[int, RawPythonThread] = {}
    rows = raw["python"]["threads"] if raw["python"] is not None else ()
    for row in sorted(rows, key=lambda row: not row["holds_gil"]):
        tid = row["tid"]
        if tid is None:
            continue
        inner = found.get(tid)
        if inner is None or not inner["frames"]:
            found[tid] = row
        elif row["frames"]:
            found[tid] = {**inner, "frames": [*inner["frames"], *row["frames"]]}
    return found


def _raised(row: RawPythonThread | None) -> RaisedException | None:
    """The exception on its way, else the one that an except block is busy with."""
    exception = None if row is None else row["raised"] or row["handled"]
    return None if exception is None else RaisedException(exception["type"], exception["message"])


def _threads(raw: RawCore, origin: Origin, python: Mapping[int, RawPythonThread]) -> Threads:
    main = raw["pid"]
    crashed = raw["crashed_tid"]
    names = raw["slim"]["thread_names"] if raw["slim"] is not None else {}

    def name_of(row: RawThread) -> str | None:
        if row["tid"] == crashed and origin.thread_name:
            return origin.thread_name
        if row["tid"] in names:  # /proc/PID/task/TID/comm, read when the slim core was made
            return names[row["tid"]]
        # The kernel takes it from the thread group's leader (fill_psinfo in fs/binfmt_elf.c).
        return raw["command"] if row["tid"] == main else None

    waits = read_waits(raw)
    frames = _Frames(raw)
    items = [
        Thread(
            tid=row["tid"],
            waits_for=waits.get(row["tid"]),
            crashed=row["tid"] == crashed,
            name=name_of(row),
            python_name=python[row["tid"]]["name"] if row["tid"] in python else None,
            holds_gil=row["tid"] in python and python[row["tid"]]["holds_gil"],
            python_exception=_raised(python.get(row["tid"])),
            registers=dict(zip(raw["register_names"], row["registers"], strict=True)),
            handles=None if row["handles"] is None else _siginfo(row["handles"]),
            frames=frames.stack(row["frames"]),
            stopped=row["stopped"],
            skipped_frames=row["skipped"],
            skipped_at=row["skipped_at"],
        )
        for row in raw["threads"]
    ]
    items.sort(key=lambda thread: not thread.crashed)
    state = raw["python"]
    if state is None:
        return Threads(tuple(items), main)
    whole = raw["expected_bytes"] <= raw["size_bytes"]
    return Threads(
        tuple(items),
        main,
        state["gil_enabled"],
        len(state["threads"]) if whole and state["gil"] else None,
        async_tasks(state["tasks"]),
        greenlets(state["greenlets"]),
        frozenset(row["tid"] for row in state["tasks"] if row["tid"] and row["nothing_due"]),
    )
