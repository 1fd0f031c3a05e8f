"""Python frames put where they belong on a thread's native stack.

The interpreter's evaluator, `_PyEval_EvalFrameDefault`, is a C function: one call of it runs one
Python frame (up to CPython 3.10), or a frame and all that it calls from Python (3.11 and later).
The native reader says for each Python frame how many evaluator calls end behind it, so that both
stacks can be cut at the same places.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from postmortem.facts.python_stacks import PythonFrame, PythonStack
from postmortem.facts.source import Problem
from postmortem.facts.threads import AsyncTask, Frame, Greenlet, Thread, Threads, Trust
from postmortem.patterns import Pattern
from postmortem.records import of_row, record, replace

if TYPE_CHECKING:
    from postmortem._native import RawAsyncTask, RawGreenlet, RawPythonThread

# GCC splits and clones functions and marks the parts behind the name.
_CLONE = r"(?:\.(?:cold|part|constprop|isra|lto_priv|llvm)\b[.\d]*| ?\[clone [^\]]*\])*"
_EVALUATOR = Pattern(rf"_PyEval_EvalFrameDefault{_CLONE}")
# 3.14 built with tail calls: each instruction is a function that jumps to the next one's.
_TAIL_CALL = Pattern(rf"_TAIL_CALL_\w+{_CLONE}")

_GREENLET = Pattern(
    r"^greenlet::UserGreenlet::(?:inner_bootstrap|g_initialstub)\b|^g_initialstub\b"
)


def python_stacks(threads: Iterable[RawPythonThread]) -> dict[int, PythonStack]:
    """Return the Python stacks of threads by their ids; rows without one are left out.

    Threads whose rows are one list, as the native reader gives them where they stand in the same
    place, share their frames.
    """
    known: dict[int, tuple[PythonFrame, ...]] = {}
    stacks = {}
    for thread in threads:
        tid, rows = thread["tid"], thread["frames"]
        if tid is None:
            continue
        if id(rows) not in known:
            known[id(rows)] = python_frames(thread)
        stacks[tid] = PythonStack(
            known[id(rows)], thread["idle_evaluators"], thread["skipped_at"], thread["stopped"]
        )
    return stacks


def async_tasks(rows: Iterable[RawAsyncTask]) -> tuple[AsyncTask, ...]:
    """Return the tasks in the order of their names, with the names of those that they await."""
    rows = sorted(rows, key=lambda row: (len(row["name"]), row["name"], row["object"]))
    names = {row["object"]: row["name"] for row in rows}
    return tuple(
        of_row(
            AsyncTask,
            row,
            frames=tuple(frame.frame() for frame in python_frames(row)),
            waits_for=tuple(names[one] for one in row["waits_for"] if one in names),
        )
        for row in rows
    )


def greenlets(rows: Iterable[RawGreenlet]) -> tuple[Greenlet, ...]:
    """Return the greenlets, those that threads began with first."""
    return tuple(
        of_row(Greenlet, row, frames=tuple(frame.frame() for frame in python_frames(row)))
        for row in sorted(rows, key=lambda row: (not row["main"], row["name"] or "", row["object"]))
    )


class Placements:
    """Puts Python frames in place, once for all threads whose stacks are the same objects."""

    def __init__(self) -> None:
        # The frames are kept, so that their ids stay their own.
        self._known: dict[Hashable, tuple[object, object, Placement]] = {}

    def of(self, thread: Thread, stack: PythonStack) -> Placement:
        """Return the merged stack of a thread."""
        key = (
            id(thread.frames),
            id(stack.frames),
            stack.idle,
            thread.skipped_at,
            thread.stopped is None,
            stack.skipped_at,
            stack.stopped is None,
        )
        known = self._known.get(key)
        if known is None:
            placed = place_python(
                thread.frames,
                stack.frames,
                idle=stack.idle,
                skipped_at=thread.skipped_at,
                complete=thread.stopped is None,
                python_skipped_at=stack.skipped_at,
                python_complete=stack.stopped is None,
            )
            known = self._known[key] = thread.frames, stack.frames, placed
        return known[2]


def with_python_frames(
    threads: Threads, stacks: Mapping[int, PythonStack]
) -> tuple[Threads, list[Problem]]:
    """Return the threads with their Python frames in place, and what is to be said of the fit."""
    items, problems = [], []
    placements = Placements()
    for thread in threads:
        stack = stacks.get(thread.tid)
        if stack is not None:
            thread, remark = with_python(thread, stack, placements)
            if remark is not None:
                problems.append(Problem(f"stack of thread {thread.tid}", remark))
        items.append(thread)
    return replace(threads, items=tuple(items)), problems


def with_python(
    thread: Thread, stack: PythonStack, placements: Placements | None = None
) -> tuple[Thread, str | None]:
    """Return the thread with its Python frames in place, and what is to be said of their fit."""
    placed = (placements or Placements()).of(thread, stack)
    remarks = []
    if placed.unplaced and thread.frames:
        remarks.append(
            f"the place of {placed.unplaced} Python frames among the native ones is not known; "
            "they stand together, in their order"
        )
    if stack.stopped is not None:
        remarks.append(f"its Python frames end early: {stack.stopped}")
    merged = replace(thread, frames=placed.frames, skipped_at=placed.skipped_at)
    return merged, "; ".join(remarks) or None


def python_frames(thread: RawPythonThread | RawAsyncTask | RawGreenlet) -> tuple[PythonFrame, ...]:
    """Return the Python frames of one thread, task or greenlet as the native reader gives them."""
    return tuple(
        PythonFrame(
            function=row["function"],
            file=row["file"],
            line=row["line"],
            evaluators=row["evaluators"],
            locals=tuple(row["locals"]),
        )
        for row in thread["frames"]
    )


@record
class Placement:
    """One stack made of two, and how well they fitted."""

    frames: tuple[Frame, ...]
    skipped_at: int | None = None
    """Where the native stack's gap is now."""
    unplaced: int = 0
    """Python frames whose place among the native frames is not known. They stand together, in
    order; where that block stands says nothing."""


def place_python(
    native: tuple[Frame, ...],
    python: Sequence[PythonFrame],
    *,
    idle: int = 0,
    skipped_at: int | None = None,
    complete: bool = True,
    python_skipped_at: int | None = None,
    python_complete: bool = True,
) -> Placement:
    """Return the merged stack with what is known about its fit.

    `skipped_at` and `python_skipped_at` are the indexes of the first frames behind a gap (the
    middle of a very long stack). `complete` and `python_complete` are false when the walk of that
    stack ended before the outermost frame: then the innermost evaluators are those that are there.
    Where the numbers of evaluators differ without such a reason, nothing is matched.
    """
    if not python:
        return Placement(native, skipped_at)
    runs, loose = _split(python, idle)
    evaluators = _evaluators(native)
    if len(evaluators) > len(runs):
        # A scan of the stack may have found leftovers of calls that are over.
        evaluators = [i for i in evaluators if native[i].trust is not Trust.SCAN]
    missing = len(runs) - len(evaluators)
    if skipped_at is not None and missing >= 0:
        chosen = _from_both_ends(sum(i < skipped_at for i in evaluators), len(runs), evaluators)
    elif missing == 0 or (missing > 0 and not complete) or (missing < 0 and not python_complete):
        chosen = dict(enumerate(evaluators[: len(runs)]))
    elif missing < 0 and python_skipped_at is not None:
        head = idle + sum(row.evaluators for row in python[:python_skipped_at])
        chosen = _from_both_ends(head, len(runs), evaluators)
    elif missing < 0 and len(inner := _in_greenlet(native, evaluators)) == len(runs):
        chosen = dict(enumerate(inner))
    else:
        chosen = {}
    return _weave(native, runs, loose, chosen, skipped_at)


def _split(python: Sequence[PythonFrame], idle: int) -> tuple[list[list[Frame]], list[Frame]]:
    """Return the frames of each evaluator call, and those behind the last call that is known."""
    runs: list[list[Frame]] = [[] for _ in range(idle)]
    current: list[Frame] = []
    for row in python:
        current.append(row.frame())
        if row.evaluators:
            runs.append(current)
            runs += [[] for _ in range(row.evaluators - 1)]
            current = []
    return runs, current


def _evaluators(native: Sequence[Frame]) -> list[int]:
    """Return the indexes of the evaluator calls, the outermost frame of each."""
    found: list[int] = []
    tail_call = False
    for index, frame in enumerate(native):
        if frame.kind != "native" or frame.inlined or frame.tail_call:
            continue
        instruction, evaluator = _runs_python(frame.function)
        if instruction or evaluator:
            # The function of an instruction and the evaluator that jumped to it are one call.
            if tail_call:
                found[-1] = index
            else:
                found.append(index)
            tail_call = instruction
        else:
            tail_call = False
    return found


@lru_cache(maxsize=4096)
def _runs_python(function: str) -> tuple[bool, bool]:
    """Return whether a function is one instruction of an evaluator, and whether it is a whole one.

    Asked for every frame of every thread, and most threads stand in the same functions.
    """
    return (
        _TAIL_CALL.fullmatch(function) is not None,
        _EVALUATOR.fullmatch(_bare(function)) is not None,
    )


def _bare(function: str) -> str:
    """Return the name without the parameters that a debugger may print behind it."""
    return function.partition("(")[0].rstrip() if "clone" not in function else function


def _in_greenlet(native: Sequence[Frame], evaluators: Sequence[int]) -> list[int]:
    """Return the evaluators of the greenlet that runs; empty where none does.

    A greenlet has a chain of Python frames of its own. On the native stack those of whom it was
    switched to from lie below the function that began it (greenlet's TUserGreenlet.cpp; up to
    version 1 a plain function).
    """
    begin = next((i for i, f in enumerate(native) if _GREENLET.search(f.function)), None)
    return [] if begin is None else [index for index in evaluators if index < begin]


def _from_both_ends(head: int, runs: int, evaluators: Sequence[int]) -> dict[int, int]:
    """Return the evaluators of the first `head` runs, and of the last ones, by run."""
    tail = min(runs, len(evaluators)) - head
    first = runs - tail
    outer = evaluators[len(evaluators) - tail :]
    return dict(enumerate(evaluators[:head])) | {first + i: index for i, index in enumerate(outer)}


def _weave(
    native: tuple[Frame, ...],
    runs: Sequence[list[Frame]],
    loose: list[Frame],
    chosen: dict[int, int],
    skipped_at: int | None,
) -> Placement:
    before = {index: runs[run] for run, index in chosen.items()}
    homeless = [frame for i, run in enumerate(runs) if i not in chosen for frame in run]
    merged: list[Frame] = []
    gap = None
    for index, frame in enumerate(native):
        if index == skipped_at:
            if chosen:  # the evaluators that are missing are in the gap, and so is their place
                merged += homeless
            gap = len(merged)
        merged += before.get(index, [])
        merged.append(frame)
    if gap is not None and chosen:
        return Placement((*merged, *loose), gap)
    # Behind evaluators that were matched they are the outer part of the stack, in its order.
    return Placement((*merged, *homeless, *loose), gap, 0 if chosen else len(homeless) + len(loose))
