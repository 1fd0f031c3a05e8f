# ruff: noqa: UP006, UP031, UP035, PTH123, SIM115
# Old syntax on purpose: RHEL 8's gdb embeds Python 3.6.
"""Runs inside gdb's own Python, never inside ours: writes what gdb knows, one JSON line at a time.

It reads ``request.json`` in the working directory and writes ``answer.jsonl`` there, flushed after
every thread, so that what was found so far survives when gdb is killed or dies. It calls no
function of the dead process and no pretty printer: values are rendered raw and cut short.
"""

import json
import time
from typing import Any, Dict, List, Set

import gdb

Record = Dict[str, Any]

VALUE_LIMITS = {
    "raw": True, "pretty_arrays": False, "pretty_structs": False, "array_indexes": False,
    "symbols": True, "static_members": False, "deref_refs": True, "max_elements": 48,
    "repeat_threshold": 8, "max_depth": 2,
}  # fmt: skip
MAX_VALUES = 64
MAX_STRING = 4096
RETURN_TRAMPOLINES = ("__restore_rt", "__kernel_rt_sigreturn")


class OutOfTime(Exception):
    pass


class OutOfSpace(Exception):
    pass


class Answer:
    """The file that the other side reads."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.file = open("answer.jsonl", "w", encoding="ascii")

    def write(self, kind: str, **fields: Any) -> None:
        line = json.dumps(dict(fields, kind=kind)) + "\n"
        self.left -= len(line)
        if self.left < 0:
            raise OutOfSpace()
        self.file.write(line)
        self.file.flush()


class Clock:
    """The deadline, looked at before everything that may take long."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def check(self) -> None:
        if time.monotonic() > self.end:
            raise OutOfTime()


def cut(value: Any, limit: int) -> str:
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "\u2026"


def rendered(value: Any, limit: int) -> str:
    try:
        try:
            text = value.format_string(**VALUE_LIMITS)
        except (TypeError, AttributeError):  # gdb before 9 has neither all limits nor the method
            text = str(value)
    except gdb.MemoryError:
        return "<unreadable>"
    except Exception as error:
        return "<too large>" if "max-value-size" in str(error) else "<unreadable>"
    return cut(" ".join(text.split("\n")), limit)


def path_of(symtab: Any) -> Any:
    if symtab is None:
        return None
    try:
        return cut(symtab.fullname(), MAX_STRING)
    except Exception:
        return cut(symtab.filename, MAX_STRING)


def symbol_name(symbol: Any) -> Any:
    return cut(symbol.print_name or symbol.name or "", MAX_STRING) or None


class Modules:
    """Which file an address belongs to."""

    def __init__(self) -> None:
        self.known: Dict[int, Any] = {}
        self.main = gdb.current_progspace().filename

    def at(self, pc: int) -> Any:
        if pc not in self.known:
            self.known[pc] = self.look_up(pc)
        return self.known[pc]

    def look_up(self, pc: int) -> Any:
        name = gdb.solib_name(pc)
        if name:
            return name
        # The main program is no shared library, and neither is the vdso.
        owner = self.owner(pc)
        return "[vdso]" if owner and owner.startswith("system-supplied DSO") else owner

    def owner(self, pc: int) -> Any:
        space = gdb.current_progspace()
        if hasattr(space, "objfile_for_address"):  # gdb 14
            objfile = space.objfile_for_address(pc)
            return objfile.filename if objfile is not None else None
        try:  # "main in section .text of /usr/bin/prog"; no "of" when there is one file only
            text = gdb.execute("info symbol %d" % pc, to_string=True).strip()
        except gdb.error:
            return None
        if " in section " not in text:
            return None
        return text.rpartition(" in section ")[2].partition(" of ")[2] or self.main


class Walk:
    """Frames of one thread after the other."""

    def __init__(self, request: Record, clock: Clock) -> None:
        self.clock = clock
        self.modules = Modules()
        self.max_frames = request["max_frames"]
        self.with_locals = request["with_locals"]
        self.value_limit = request["value_limit"]

    def thread(self, thread: Any) -> Record:
        thread.switch()
        frames: List[Record] = []
        try:
            stopped = self.frames(frames)
        except OutOfTime:  # the next look at the clock ends it all
            stopped = "the time for gdb was over"
        except (gdb.error, RuntimeError) as error:
            stopped = cut(error, 300)
        return {"frames": frames, "stopped": stopped}

    def frames(self, frames: List[Record]) -> Any:
        """Add the frames of the selected thread, return why they end early, None if they do not."""
        physical = 0
        frame = gdb.newest_frame()
        while frame is not None and frame.is_valid():
            self.clock.check()
            record = self.frame(frame)
            frames.append(record)
            physical += not record.get("inlined") and not record.get("tail_call")
            if physical >= self.max_frames or len(frames) >= 4 * self.max_frames:
                return "limit of %d frames" % self.max_frames
            older = frame.older()
            if older is None:
                return self.why(frame)
            frame = older
        return None

    def why(self, frame: Any) -> Any:
        reason = frame.unwind_stop_reason()
        if reason in (gdb.FRAME_UNWIND_NO_REASON, gdb.FRAME_UNWIND_OUTERMOST):
            return None
        return cut(gdb.frame_stop_reason_string(reason), 300)

    def frame(self, frame: Any) -> Record:
        pc = frame.pc()
        record = {"pc": pc, "name": None}
        kind = frame.type()
        if kind == gdb.INLINE_FRAME:
            record["inlined"] = True
        elif kind == gdb.TAILCALL_FRAME:
            record["tail_call"] = True
        try:
            symbol = frame.function()
            name = symbol_name(symbol) if symbol is not None else frame.name()
            record["name"] = cut(name, MAX_STRING) if name else None
            sal = frame.find_sal()
            if sal.symtab is not None:
                record["file"] = path_of(sal.symtab)
                record["line"] = sal.line or None
        except (gdb.error, RuntimeError):  # debug information that gdb cannot read
            symbol = None
        record["module"] = self.modules.at(pc)
        if symbol is not None:
            self.values(frame, record)
        return record

    def values(self, frame: Any, record: Record) -> None:
        try:
            block = frame.block()
        except RuntimeError:
            return
        arguments: List[List[str]] = []
        variables: List[List[str]] = []
        seen: Set[str] = set()
        while block is not None:
            self.clock.check()
            for symbol in block:
                wanted = symbol.is_argument or (self.with_locals and symbol.is_variable)
                place = arguments if symbol.is_argument else variables
                if not wanted or symbol.name in seen or len(place) >= MAX_VALUES:
                    continue
                seen.add(symbol.name)
                place.append([cut(symbol.name, 200), self.value(frame, symbol, block)])
            if block.function is not None:
                break
            block = block.superblock
        record["arguments"] = arguments
        if self.with_locals:
            record["locals"] = variables

    def value(self, frame: Any, symbol: Any, block: Any) -> str:
        try:
            value = frame.read_var(symbol, block)
        except Exception as error:
            return "<too large>" if "max-value-size" in str(error) else "<unreadable>"
        return rendered(value, self.value_limit)


def lines_at(pc: int) -> List[Any]:
    """Return [function, file, line, inlined] of an address, innermost first.

    gdb keeps the place of the call as the "declaration" of an inlined function's symbol
    (DW_AT_call_file and DW_AT_call_line, gdb/dwarf2/read.c new_symbol).
    """
    sal = gdb.find_pc_line(pc)
    if sal.symtab is None or not sal.line:
        return []
    file, line = path_of(sal.symtab), sal.line
    chain: List[List[Any]] = []
    block = gdb.block_for_pc(pc)
    while block is not None and len(chain) < 64:
        symbol = block.function
        if symbol is not None:
            chain.append([symbol_name(symbol), file, line, True])
            file, line = path_of(symbol.symtab), symbol.line or None
        block = block.superblock
    if chain:
        chain[-1][3] = False
        return chain
    return [[None, file, line, False]]


def is_trampoline(pc: int) -> bool:
    """Return whether a signal handler returns here.

    A return address stands behind its call, which may be the last thing on the line before; the
    frame under a signal handler was interrupted and stands where it is.
    """
    try:
        text = gdb.execute("info symbol %d" % pc, to_string=True)
    except gdb.error:
        return False
    # Searched for, because gdb 18 returns text under MI as a quoted stream record.
    return any(name in text for name in RETURN_TRAMPOLINES)


def write_lines(answer: Answer, clock: Clock, pcs: Record, walked: Dict[int, Set[int]]) -> None:
    """Write the source lines of the addresses that no walk has come by."""
    known: Dict[int, List[Any]] = {}
    batch: List[Any] = []
    for tid, addresses in pcs.items():
        for index, pc in enumerate(addresses):
            clock.check()
            if pc in known or pc in walked.get(int(tid), ()):
                continue
            exact = index == 0 or is_trampoline(addresses[index - 1])
            try:
                known[pc] = lines_at(pc if exact else pc - 1)
            except (gdb.error, RuntimeError):
                known[pc] = []
            if known[pc]:
                batch.append([pc, known[pc]])
        if len(batch) > 200:
            answer.write("lines", items=batch)
            batch = []
    if batch:
        answer.write("lines", items=batch)


def write_instruction(answer: Answer, modules: Modules) -> None:
    frame = gdb.newest_frame()
    pc = frame.pc()
    try:
        text = frame.architecture().disassemble(pc, count=1)[0]["asm"]
    except (gdb.error, RuntimeError, IndexError):
        return
    module = modules.at(pc)
    answer.write("instruction", pc=pc, module=module, text=cut(" ".join(text.split()), 300))


def thread_id(thread: Any) -> int:
    pid, lwp, _ = thread.ptid
    return int(lwp or pid)


def write_threads(
    answer: Answer, walk: Walk, threads: List[Any], current: Any
) -> Dict[int, Set[int]]:
    walked: Dict[int, Set[int]] = {}
    for thread in threads:
        walk.clock.check()
        tid = thread_id(thread)
        try:
            found = walk.thread(thread)
        except (gdb.error, RuntimeError) as error:
            found = {"frames": [], "stopped": cut(error, 300)}
        walked[tid] = {frame["pc"] for frame in found["frames"]}
        answer.write("thread", tid=tid, name=thread.name, current=thread.num == current, **found)
    return walked


def run() -> None:
    with open("request.json", encoding="ascii") as file:
        request = json.load(file)
    clock = Clock(request["seconds"])
    answer = Answer(request["max_bytes"])
    threads = sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num)
    selected = gdb.selected_thread()
    current = selected.num if selected is not None else None
    threads.sort(key=lambda thread: thread.num != current)
    wanted = request["tid"]
    if wanted is not None:
        threads = [thread for thread in threads if thread_id(thread) == wanted]
    answer.write("start", version=gdb.VERSION, threads=len(threads))
    try:
        walk = Walk(request, clock)
        if selected is not None:
            write_instruction(answer, walk.modules)
        walked = write_threads(answer, walk, threads, current)
        write_lines(answer, clock, request["pcs"], walked)
        answer.write("end")
    except OutOfTime:
        answer.write("stopped", why="the time for it was over")
    except OutOfSpace:
        answer.left = 1000
        answer.write("stopped", why="its answer became too large")


run()
