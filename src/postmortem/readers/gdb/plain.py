"""Stacks by MI commands alone, for a gdb that was built without Python.

Slower, and it knows less: what is inlined is inferred from equal addresses, and a source line
behind an address has no chain of inlined calls.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from postmortem.facts.threads import Frame, Trust
from postmortem.readers.gdb.answers import GdbThread, SourceLine
from postmortem.readers.gdb.mi import Conversation, GdbRefused, Payload
from postmortem.text import cut

_BATCH = 16
_VALUE_LIMIT = 160
_LOCALS_FRAMES = 64
_MAX_LINES = 4096
_RETURN_TRAMPOLINES = frozenset({"__restore_rt", "__kernel_rt_sigreturn"})
_TID = re.compile(r"(?:LWP|process) (\d+)")


def read_threads(
    gdb: Conversation, *, tid: int | None, max_frames: int, with_locals: bool
) -> Iterator[GdbThread]:
    """Yield thread after thread, the crashed one first; raises `DebuggerError` when gdb fails."""
    answer = gdb.ask("-thread-info")
    current = answer.get("current-thread-id")
    rows = [row for row in answer.get("threads", ()) if isinstance(row, dict) and "id" in row]
    rows.sort(key=lambda row: row["id"] != current)
    wanted = [row for row in rows if tid is None or _tid(row) == tid]
    for start in range(0, len(wanted), _BATCH):
        batch = wanted[start : start + _BATCH]
        where = [f"--thread {row['id']}" for row in batch]
        span = f"0 {max_frames - 1}"
        stacks = gdb.ask_all([f"-stack-list-frames {thread} {span}" for thread in where])
        values = gdb.ask_all([f"-stack-list-arguments {thread} 1 {span}" for thread in where])
        for row, stack, arguments in zip(batch, stacks, values, strict=True):
            frames = _frames(stack, arguments)
            if with_locals:
                frames = _with_locals(gdb, row["id"], frames)
            yield GdbThread(
                tid=_tid(row),
                frames=tuple(frames),
                name=row.get("name"),
                current=row["id"] == current,
                stopped=stack.what if isinstance(stack, GdbRefused) else None,
            )


def instruction(gdb: Conversation) -> str | None:
    """Return the instruction that the crashed thread was at; call it before other threads."""
    try:
        answer = gdb.ask('-data-disassemble -s "$pc" -e "$pc+1" -- 0')
        text = answer["asm_insns"][0]["inst"]
    except (GdbRefused, LookupError, TypeError):
        return None
    return " ".join(str(text).split()) or None


def read_lines(
    gdb: Conversation,
    pcs: Mapping[int, Sequence[int]],
    walked: Callable[[int], set[int]],
    into: dict[int, tuple[SourceLine, ...]],
) -> None:
    """Add the source lines of addresses that no walk has come by to `into`, as they come."""
    callees: dict[int, int | None] = {}
    for tid, addresses in pcs.items():
        known = walked(tid)
        for index, pc in enumerate(addresses):
            if pc not in known:
                callees.setdefault(pc, addresses[index - 1] if index else None)
    rows = list(callees.items())[:_MAX_LINES]
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        returns = _are_trampolines(gdb, [callee for _, callee in batch if callee is not None])
        # As in `inside`: a return address stands behind its call, except under a signal handler.
        places = [pc if callee is None or callee in returns else pc - 1 for pc, callee in batch]
        asked = [f"-data-disassemble -s {at:#x} -e {at + 1:#x} -- 5" for at in places]
        for (pc, _), answer in zip(batch, gdb.ask_all(asked), strict=True):
            line = _line(answer)
            if line is not None:
                into[pc] = (line,)


def _are_trampolines(gdb: Conversation, addresses: Sequence[int]) -> set[int]:
    asked = [f"-data-disassemble -s {at:#x} -e {at + 1:#x} -- 0" for at in addresses]
    found = set()
    for address, answer in zip(addresses, gdb.ask_all(asked), strict=True):
        rows = [] if isinstance(answer, GdbRefused) else _rows(answer.get("asm_insns"))
        if rows and rows[0].get("func-name") in _RETURN_TRAMPOLINES:
            found.add(address)
    return found


def _line(answer: Payload | GdbRefused) -> SourceLine | None:
    try:
        source = answer["asm_insns"][0]["src_and_asm_line"]  # type: ignore[index]
    except (LookupError, TypeError):
        try:
            source = answer["asm_insns"][0]  # type: ignore[index]
        except (LookupError, TypeError):
            return None
    if not isinstance(source, dict) or not str(source.get("line", "")).isdigit():
        return None
    # The function that an instruction listing names is the symbol, not the inlined function that
    # the line belongs to: it would be a wrong pair.
    return SourceLine(None, source.get("fullname") or source.get("file"), int(source["line"]))


def _tid(row: dict[str, Any]) -> int:
    match = _TID.search(str(row.get("target-id", "")))
    return int(match[1]) if match else 0


def _frames(stack: Payload | GdbRefused, arguments: Payload | GdbRefused) -> list[Frame]:
    if isinstance(stack, GdbRefused):
        return []
    values: dict[str, tuple[tuple[str, str], ...]] = {}
    if not isinstance(arguments, GdbRefused):
        for row in _rows(arguments.get("stack-args")):
            values[str(row.get("level"))] = _pairs(row.get("args"))
    frames: list[Frame] = []
    for row in _rows(stack.get("stack")):
        try:
            pc = int(str(row.get("addr")), 16)
        except ValueError:
            continue
        line = str(row.get("line", ""))
        frames.append(
            Frame(
                function=str(row.get("func") or "??"),
                pc=pc,
                module=row.get("from"),
                file=row.get("fullname") or row.get("file"),
                line=int(line) if line.isdigit() else None,
                trust=Trust.GDB,
                arguments=values.get(str(row.get("level")), ()),
            )
        )
    return mark_inlined(frames)


def mark_inlined(frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames with all but the last of a run with one address marked as inlined.

    A call cannot return to its own address twice in a row, except for one: direct recursion, where
    the function is the same too.
    """
    from postmortem.records import replace

    marked = []
    for frame, outer in zip(frames, (*frames[1:], None), strict=True):
        inlined = outer is not None and frame.pc == outer.pc and frame.function != outer.function
        marked.append(replace(frame, inlined=True) if inlined else frame)
    return marked


def _with_locals(gdb: Conversation, thread: str, frames: list[Frame]) -> list[Frame]:
    from postmortem.records import replace

    levels = range(min(len(frames), _LOCALS_FRAMES))
    asked = [f"-stack-list-locals --thread {thread} --frame {level} 1" for level in levels]
    answers = gdb.ask_all(asked)
    told = [
        replace(frame, locals=() if isinstance(a, GdbRefused) else _pairs(a.get("locals")))
        for frame, a in zip(frames, answers, strict=False)
    ]
    return told + frames[len(told) :]


def _rows(value: object) -> list[dict[str, Any]]:
    """Return ``[frame={…},frame={…}]`` as dictionaries; pygdbmi drops the keys before them."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    return tuple(
        (str(row["name"]), cut(str(row["value"]), _VALUE_LIMIT))
        for row in _rows(value)
        if "name" in row and "value" in row
    )
