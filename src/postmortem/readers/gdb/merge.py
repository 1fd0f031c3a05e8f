"""Two accounts of one stack, ours and gdb's, made one.

Our own walk is the backbone: it says where each physical frame comes from and how sure that is.
gdb adds what only DWARF knows. Where the two part, the better proven one is followed, and the
difference is told instead of hidden.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from postmortem.facts.memory import CodeRanges
from postmortem.facts.threads import Frame, Trust
from postmortem.readers.gdb.answers import SourceLine
from postmortem.records import record, replace
from postmortem.text import counted

_PROVEN = frozenset({Trust.CONTEXT, Trust.CFI})
_LOOK_AHEAD = 64


@record
class MergedStack:
    """One stack out of two accounts."""

    frames: tuple[Frame, ...]
    disagreement: str | None = None
    """Where and how the accounts differ, in one sentence; None when they do not."""
    parted_after: Frame | None = None
    """The frame whose caller both know, and not the same; None where only one of them goes on."""


class _Group(NamedTuple):
    """A physical frame of gdb and the inlined and tail-call frames that stand before it."""

    before: tuple[Frame, ...]
    frame: Frame

    @property
    def all(self) -> tuple[Frame, ...]:
        return (*self.before, self.frame)


class _Step(NamedTuple):
    """A stretch of both stacks: one frame that both have, or what only one of them has."""

    native: tuple[Frame, ...]
    gdb: tuple[_Group, ...]


def merge_stack(
    native: tuple[Frame, ...],
    gdb: tuple[Frame, ...],
    lines: Mapping[int, tuple[SourceLine, ...]],
    *,
    code: CodeRanges | None = None,
    ended: bool = False,
) -> MergedStack:
    """Return one thread's stack from our walk and gdb's.

    `code` is where code can be: where gdb's walk leaves it, words of the stack were taken for
    return addresses, and so may have been all that follow. `ended` says that our walk came to the
    outermost frame, behind which nothing is. `lines` are source lines of program counters that
    gdb's walk does not have. Frames that are in one of the stacks because of inlining or tail calls
    are no difference; gdb's are taken where it knows the lines of a frame, ours elsewhere.
    """
    lines = {**_own_lines(native), **lines}
    native = tuple(frame for frame in native if not frame.inlined)
    groups = _on_code(_groups(gdb), code)
    if not native:
        return MergedStack(tuple(frame for group in groups for frame in group.all))
    if groups and groups[0].frame.pc != native[0].pc:
        what = f"gdb has the thread at {_place(groups[0].frame)}, the core at {_place(native[0])}"
        return MergedStack(_with_lines(native, lines), what)
    frames: list[Frame] = []
    disagreement = parted_after = None
    for step, last in _steps(native, groups):
        both = len(step.native) == 1 and len(step.gdb) == 1
        if both and step.native[0].pc == step.gdb[0].frame.pc:
            frames += _united(step.native[0], step.gdb[0], lines)
            continue
        chosen, difference = _choose(
            step, frames, last=last, lines=lines, heard=bool(groups), ended=ended
        )
        if difference is not None and disagreement is None:
            disagreement = difference
            parted_after = frames[-1] if frames and step.native and step.gdb else None
        frames += chosen
    return MergedStack(tuple(frames), disagreement, parted_after)


def _own_lines(native: tuple[Frame, ...]) -> dict[int, tuple[SourceLine, ...]]:
    """Return what our walk knows of its program counters, as gdb would tell it."""
    found: dict[int, tuple[SourceLine, ...]] = {}
    inlined: list[SourceLine] = []
    for frame in native:
        if frame.file is not None and frame.line is not None:
            inlined.append(SourceLine(frame.function, frame.file, frame.line, frame.inlined))
        if not frame.inlined:
            if inlined and frame.pc is not None:
                found[frame.pc] = tuple(inlined)
            inlined = []
    return found


def _groups(frames: tuple[Frame, ...]) -> list[_Group]:
    groups, before = [], []
    for frame in frames:
        if frame.inlined or frame.tail_call:
            before.append(frame)
        else:
            groups.append(_Group(tuple(before), frame))
            before = []
    if before:  # the walk was cut between an inlined frame and the one that it is part of
        outermost = replace(before.pop(), inlined=False, tail_call=False)
        groups.append(_Group(tuple(before), outermost))
    return groups


def _on_code(groups: list[_Group], code: CodeRanges | None) -> list[_Group]:
    """Return the frames up to the first that no call can have returned to.

    The innermost one, and one that a signal interrupted, may stand anywhere: that may be the fault.
    Nothing is called by an entry of a procedure linkage table, which only jumps.
    """
    interrupted = True
    for number, group in enumerate(groups):
        frame = group.frame
        bare = code is not None and frame.pc is not None and frame.pc not in code
        if not interrupted and (bare or frame.function.endswith("@plt")):
            return groups[:number]
        interrupted = frame.is_signal
    return groups


def _steps(native: tuple[Frame, ...], groups: list[_Group]) -> Iterator[tuple[_Step, bool]]:
    """Yield both stacks in stretches, each with whether it is the last."""
    i = j = 0
    while i < len(native) or j < len(groups):
        if i < len(native) and j < len(groups) and native[i].pc == groups[j].frame.pc:
            yield _Step(native[i : i + 1], tuple(groups[j : j + 1])), False
            i, j = i + 1, j + 1
            continue
        to_i, to_j = _next_meeting(native, groups, i, j)
        last = to_i == len(native) and to_j == len(groups)
        yield _Step(native[i:to_i], tuple(groups[j:to_j])), last
        i, j = to_i, to_j


def _next_meeting(
    native: tuple[Frame, ...], groups: list[_Group], i: int, j: int
) -> tuple[int, int]:
    for ahead in range(1, _LOOK_AHEAD):
        for behind in range(ahead + 1):
            for a, b in ((i + ahead, j + behind), (i + behind, j + ahead)):
                if a < len(native) and b < len(groups) and native[a].pc == groups[b].frame.pc:
                    return a, b
    return len(native), len(groups)


def _choose(
    step: _Step,
    so_far: list[Frame],
    *,
    last: bool,
    lines: Mapping[int, tuple[SourceLine, ...]],
    heard: bool,
    ended: bool,
) -> tuple[tuple[Frame, ...], str | None]:
    """Return the frames to take where the accounts part, and what to say about it."""
    ours = _with_lines(step.native, lines)
    groups = _without_garbage(step.gdb) if last else step.gdb
    theirs = tuple(frame for group in groups for frame in group.all)
    if not heard or not (theirs or ours):
        return ours, None
    where = f"after frame #{len(so_far) - 1} ({so_far[-1].function})" if so_far else "at the top"
    if not theirs:
        more = counted(len(step.native), "more frame")
        if last:
            return ours, f"{where} gdb's stack ends; our walk goes on for {more}"
        return ours, f"{where} our walk has {more} than gdb before both agree again"
    if not ours and last and ended:
        return (), f"{where} our walk ends at the outermost frame; gdb's goes on and is left out"
    if not ours:
        return _gdb_alone(groups, theirs, so_far, where, last=last)
    proven = step.native[0].trust in _PROVEN
    named = sum(group.frame.function != "??" for group in groups)
    use_gdb = not proven and named >= sum(frame.function != "??" for frame in step.native)
    what = (
        f"{where} our walk goes to {_place(step.native[0])} ({step.native[0].trust.value}), "
        f"gdb's to {_place(groups[0].frame)}; {'gdb' if use_gdb else 'our walk'} is followed"
    )
    return (theirs if use_gdb else ours), what


def _gdb_alone(
    groups: tuple[_Group, ...],
    theirs: tuple[Frame, ...],
    so_far: list[Frame],
    where: str,
    *,
    last: bool,
) -> tuple[tuple[Frame, ...], str | None]:
    more = counted(len(groups), "more frame")
    if last:
        return theirs, f"{where} our walk ends; gdb's goes on for {more}"
    # Both meet again further out. Unwind tables that led there skip no frame, so gdb's extra ones
    # are believed only where our walk had to guess.
    guessed = bool(so_far) and so_far[-1].trust not in _PROVEN
    verdict = "they are shown" if guessed else "they are left out"
    return (theirs if guessed else ()), f"{where} gdb has {more} than our walk; {verdict}"


def _without_garbage(groups: tuple[_Group, ...]) -> tuple[_Group, ...]:
    # Where a module has no unwind tables gdb guesses from the code and may end in frames that are
    # just words of the stack (seen in MKL's sgemm kernels): nameless and in no module.
    end = len(groups)
    while end and groups[end - 1].frame.function == "??" and groups[end - 1].frame.module is None:
        end -= 1
    return groups[:end]


def _united(
    native: Frame, group: _Group, lines: Mapping[int, tuple[SourceLine, ...]]
) -> tuple[Frame, ...]:
    gdb = group.frame
    chain = lines.get(native.pc, ()) if native.pc is not None else ()
    if gdb.file is None and not group.before:
        name = _better_name(native.function, gdb.function)
        known = replace(native, function=name, module=native.module or gdb.module)
        return _with_lines((known,), lines)
    physical = replace(
        native,
        function=_better_name(native.function, gdb.function),
        module=native.module or gdb.module,
        file=gdb.file or native.file,
        line=gdb.line if gdb.file else native.line,
        arguments=gdb.arguments or native.arguments,
        locals=gdb.locals or native.locals,
    )
    united = []
    for frame in (*group.before, physical):
        if frame.inlined and frame.pc == native.pc:
            frame = replace(
                frame,
                module=physical.module,
                module_offset=native.module_offset,
                trust=native.trust,
            )
        united.append(frame)
    here = [i for i, frame in enumerate(united) if not frame.tail_call and frame.pc == native.pc]
    if len(here) == len(chain):
        # gdb leaves out the rows of a line program that begin no statement, and so may name a line
        # of a header for a call that stands in the function itself (gdb 13, new_allocator.h).
        for i, source in zip(here, chain, strict=True):
            united[i] = replace(united[i], file=source.file, line=source.line)
    return tuple(united)


def _better_name(native: str, gdb: str) -> str:
    if gdb == "??" or native == gdb:
        return native
    if native == "??" or native.startswith("_R"):  # a later version of Rust's names
        return gdb
    # Only a fuller form of the same name is taken. Two different names are mostly aliases of one
    # address (pause, __libc_pause), and the symbol table's is the one that users know.
    same = _base_name(native) == _base_name(gdb)
    return gdb if same and "(" in gdb and "(" not in native else native


def _base_name(name: str) -> str:
    while True:
        shorter = re.sub(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]", "", name)
        if shorter == name:
            break
        name = shorter
    return name.removesuffix(" const").strip().rpartition(" ")[2].rpartition("::")[2]


def _with_lines(
    frames: tuple[Frame, ...], lines: Mapping[int, tuple[SourceLine, ...]]
) -> tuple[Frame, ...]:
    done: list[Frame] = []
    for frame in frames:
        chain = lines.get(frame.pc, ()) if frame.pc is not None else ()
        done += (
            replace(
                frame,
                function=source.function or "??",
                file=source.file,
                line=source.line,
                inlined=True,
            )
            for source in chain
            if source.inlined
        )
        own = next((source for source in chain if not source.inlined), None)
        if own is not None:
            name = _better_name(frame.function, own.function or "??")
            frame = replace(frame, function=name, file=own.file, line=own.line)
        done.append(frame)
    return tuple(done)


def _place(frame: Frame) -> str:
    at = "an unknown address" if frame.pc is None else f"{frame.pc:#x}"
    return at if frame.function == "??" else f"{frame.function} ({at})"
