"""What one thread was doing, in words."""

from collections.abc import Iterator

from postmortem.diagnose.stacks.names import location, shorten
from postmortem.facts.threads import Frame, Thread, is_ours
from postmortem.knowledge import threads
from postmortem.knowledge.frames import C_LIBRARY, NOTHING, FrameKind, frame_kind, python_frame_kind
from postmortem.knowledge.modules import area_of, short_name
from postmortem.patterns import Pattern
from postmortem.records import record

RUNNING, WAITING, IDLE = "running", "waiting", "idle"
EVALUATOR = "CPython's evaluator"
_LANDMARKS = 3
LIBRARY_FILE = Pattern(r"/(?:site|dist)-packages/|/lib(?:64)?/python3|^<frozen ").search
"""Files that are not the user's own code."""


@record
class Activity:
    """What a thread is there for, whether it works, and at what."""

    role: str | None
    state: str
    """`RUNNING`, `WAITING` (for what only its caller knows) or `IDLE` (a worker without work)."""
    waits: str | None
    """What a waiting thread does, in words: ``"waits for a Python lock"``."""
    where: str
    """``"gomp_team_barrier_wait_end"``, ``"step (train.py:31) -> backward
    (torch/_tensor.py:581)"``: the outermost first."""


def area(frame: Frame, executable: str | None) -> str:
    """Return the part of the process that a frame belongs to: ``"PyTorch autograd"``."""
    if frame.kind == "python":
        return "Python"
    return area_of(frame.function, frame.module, executable)


def kind_of(frame: Frame, executable: str | None) -> FrameKind:
    """Return what the tables know of a frame."""
    if frame.kind == "python":
        return python_frame_kind(frame.file, frame.function)
    return frame_kind(frame.function, area(frame, executable))


def role(thread: Thread, main_tid: int, executable: str | None) -> str | None:
    """Return what a thread is there for, None when nothing tells."""
    if thread.tid == main_tid:
        return threads.MAIN
    by_python = _first_role(
        threads.role_of_python(f.file, f.function) for f in _outermost(thread, "python", executable)
    )
    by_function = by_python or _first_role(
        threads.role_of_function(f.function, area(f, executable))
        for f in _outermost(thread, "native", executable)
    )
    # A name comes after functions: a new thread inherits that of its creator, so the OpenMP team
    # of a backward pass calls itself pt_autograd_0, and everything else pt_main_thread.
    named = threads.role_of_name(thread.name)
    if by_function in (None, threads.PYTHON) and named not in (None, threads.MAIN):
        return named
    if by_function is not None:
        return by_function
    if any(f.kind == "python" for f in thread.frames) or thread.python_name is not None:
        return threads.PYTHON
    # a cut walk has not seen the outermost frames
    if thread.stopped is not None and len(thread.frames) > threads.OUTERMOST:
        return None
    return threads.role_of_area(area(f, executable) for f in reversed(thread.frames))


def activity(thread: Thread, main_tid: int, executable: str | None) -> Activity:
    """Return what a thread was doing."""
    own_role = role(thread, main_tid, executable)
    state, waits = _state(thread, own_role, executable)
    return Activity(own_role, state, waits, where(thread, executable))


def where(thread: Thread, executable: str | None) -> str:
    """Return the places that say most of a stack, the outermost first."""
    python = (f for f in thread.frames if f.kind == "python" and not is_ours(f.file))
    calls = [f for f in python if not kind_of(f, executable).noise]
    parts = python_places(calls)
    native = list(_landmarks(thread, executable, before_python=bool(calls)))
    most = 1 if len(parts) > 1 else _LANDMARKS
    if not calls and len(native) > most:
        parts += [native[-1], "…"] if len(native) > most + 1 else [native[-1]]
    parts += reversed(native[:most])
    if parts:
        return " -> ".join(parts)
    return "no frame could be read" if not thread.frames else _any_place(thread, executable)


def _first_role(roles: Iterator[str | None]) -> str | None:
    return next((found for found in roles if found is not None), None)


def _outermost(thread: Thread, kind: str, executable: str | None) -> Iterator[Frame]:
    """Yield the outermost frames; boilerplate does not count, but may have a role itself."""
    seen = 0
    for frame in reversed(thread.frames):
        if frame.kind != kind:
            continue
        fold = kind_of(frame, executable).fold
        if fold == EVALUATOR:
            return  # what Python calls says nothing of what the thread was started for
        yield frame
        seen += fold is None
        if seen >= threads.OUTERMOST:
            return


def _state(thread: Thread, own_role: str | None, executable: str | None) -> tuple[str, str | None]:
    """Return the state of a thread, and what it waits for if the tables know."""
    if thread.waits_for is not None and thread.waits_for.contended:
        return WAITING, f"waits for {thread.waits_for.what}"
    waited, words = False, None
    for frame in thread.frames:
        kind = kind_of(frame, executable)
        if kind.wait or (waited and kind is NOTHING and area(frame, executable) == C_LIBRARY):
            waited, words = True, kind.note or words
            continue
        idle = kind.idle and (kind.role is None or kind.role == own_role)
        if idle or waited:
            words = kind.note if idle else words
            return (IDLE, None) if _has_no_work(own_role) else (WAITING, words)
        return RUNNING, None
    return (WAITING, words) if waited else (RUNNING, None)


def _has_no_work(own_role: str | None) -> bool:
    # the main thread and threads of the program wait for something; those of a library's pool,
    # with nobody's call on their stack, wait for work
    return own_role not in (None, threads.MAIN, threads.PYTHON, "executor worker")


def _landmarks(thread: Thread, executable: str | None, *, before_python: bool) -> Iterator[str]:
    """Yield, innermost first, one place for each area that the stack goes through."""
    last_area, waiting = None, True
    for frame in thread.frames:
        if frame.kind == "python":
            if before_python:
                return
            continue
        kind = kind_of(frame, executable)
        if frame.inlined or kind.noise or frame.function == "??":
            continue
        if waiting and kind.wait:
            continue
        waiting = False
        own_area = area(frame, executable)
        if own_area != last_area:
            last_area = own_area
            yield shorten(frame.function)


def python_places(calls: list[Frame]) -> list[str]:
    """Return the two innermost Python calls, after the innermost one of the user's own code."""
    own = next((i for i, f in enumerate(calls) if f.file and not LIBRARY_FILE(f.file)), 0)
    chosen = [python_place(frame) for frame in reversed(calls[:2])]
    if own >= 2:
        chosen[:0] = [python_place(calls[own]), *(["…"] if own > 2 else [])]
    return chosen


def python_place(frame: Frame) -> str:
    """Return ``save (train.py:31)`` of a call of Python."""
    place = location(frame.file, frame.line)
    return f"{frame.function} ({place})" if place else frame.function


def _any_place(thread: Thread, executable: str | None) -> str:
    named = next((f for f in thread.frames if f.function != "??"), None)
    if named is not None:
        return shorten(named.function)
    first = thread.frames[0]
    module = short_name(first.module)
    return f"{module}, no symbols" if module else "no module: an address outside of all files"
