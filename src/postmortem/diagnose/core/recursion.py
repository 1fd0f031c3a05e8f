"""Whether a stack is one recursion, and through which functions it goes."""

from collections import Counter

from postmortem import thresholds
from postmortem.facts.threads import Frame
from postmortem.records import record

WINDOW = 1000
"""Innermost frames that are looked at.

Readers cut deep stacks at about 500, to which inlined and Python frames come; one turn of a
`__getattr__` that calls itself has 14 frames in CPython 3.9, and more in a build without inlining.
"""


@record
class Recursion:
    """A cycle of calls on one stack."""

    functions: tuple[str, ...]
    """The functions of the cycle, innermost first."""
    first: Frame
    """The innermost frame of the cycle."""
    frames: int
    """How many frames of the stack belong to the cycle; at least, when the stack was cut."""
    is_python: bool
    """Whether the interpreter takes part: Python code that calls itself."""
    python: Frame | None = None
    """The innermost Python frame of the cycle, where Python frames are known."""


def recursion(frames: tuple[Frame, ...]) -> Recursion | None:
    """Return the recursion that fills the stack, or None.

    Functions are counted rather than matched as a strict cycle: a walk over a tree takes different
    turns at each level and is a recursion all the same.
    """
    window = frames[:WINDOW]
    counts = Counter(key for frame in window if (key := _key(frame)) is not None)
    often = {key for key, count in counts.items() if count >= thresholds.RECURSION_FRAMES}
    if not often or sum(counts[key] for key in often) < thresholds.RECURSION_SHARE * len(window):
        return None
    ordered: dict[str, Frame] = {}
    for frame in window:
        key = _key(frame)
        if key is not None and key in often:
            ordered.setdefault(key, frame)
    total = sum(1 for frame in frames if _key(frame) in often)
    is_python = any(frame.kind == "python" or _is_interpreter(frame) for frame in ordered.values())
    first = next(iter(ordered.values()))
    python = next((frame for frame in ordered.values() if frame.kind == "python"), None)
    return Recursion(tuple(ordered), first, total, is_python, python)


def _key(frame: Frame) -> str | None:
    """Return the function's name, or its place where it has no name (stripped libraries)."""
    if frame.function not in ("", "??"):
        return frame.function
    if frame.module is not None and frame.module_offset is not None:
        return f"{frame.module.rsplit('/', 1)[-1]}+{frame.module_offset:#x}"
    return None if frame.pc is None else f"{frame.pc:#x}"


def _is_interpreter(frame: Frame) -> bool:
    # pickle, json, ast and others walk Python objects in C; their modules lie in lib-dynload
    if "/lib-dynload/" in (frame.module or ""):
        return True
    return frame.function.startswith(
        ("_PyEval_", "PyEval_", "_PyObject_", "PyObject_", "_PyFunction_", "slot_tp_")
    )
