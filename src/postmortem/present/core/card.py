"""What a core puts on its card: the user's own line of Python, and the innermost own native one."""

from postmortem.diagnose.core.waiting_caller import waiting_caller
from postmortem.diagnose.stacks.activity import area
from postmortem.diagnose.stacks.names import shorten
from postmortem.facts.threads import Frame, Thread, Threads, is_own
from postmortem.knowledge.modules import EXTENSION, PROGRAM, short_name
from postmortem.present.circle_places import circle_places
from postmortem.present.core.view import CoreView
from postmortem.present.headline.core import headline
from postmortem.present.places import told_values
from postmortem.report.card import Highlights, Place
from postmortem.report.model import Topic
from postmortem.text import counted

_FAR = 64
"""Frames from the innermost in which a native one is looked for: below it are only callers."""


def core_highlights(view: CoreView, at_failure: Threads) -> Highlights:
    """Return the places of the thread that the report opens with, and what others do."""
    thread = view.shown_thread
    if thread is None:
        return Highlights()
    best = view.diagnoses[0] if view.diagnoses else None
    places = _places(thread, view.process.executable)
    waiting = None if places else waiting_caller(view.threads)
    if waiting is not None:  # the user's own line, for which the thread that crashed worked
        places = _places(waiting, view.process.executable)
    if best is not None and best.id == "deadlock":
        places = circle_places(view.threads) or places
    crashed = view.threads.crashed
    said = headline(
        view.signal,
        view.process,
        view.diagnoses,
        threads=at_failure,
        placed=not any(place.module is None for place in places) or thread is not crashed,
    )
    return Highlights(places=places, headline=said, rest=_others(view))


def _places(thread: Thread, executable: str | None) -> tuple[Place, ...]:
    python = [f for f in thread.frames if f.kind == "python" and is_own(f.file)]
    found = [_python(frame) for frame in python[:1]]
    native = next((f for f in thread.frames[:_FAR] if _is_own_native(f, executable)), None)
    if native is not None:
        found.append(_native(native))
    return tuple(found)


def _is_own_native(frame: Frame, executable: str | None) -> bool:
    if frame.kind == "python" or frame.function == "??" or frame.file is None:
        return False
    return area(frame, executable) in (EXTENSION, PROGRAM)


def _python(frame: Frame) -> Place:
    return Place(frame.function, frame.file, frame.line, values=told_values(frame.locals))


def _native(frame: Frame) -> Place:
    return Place(
        shorten(frame.function),
        frame.file,
        frame.line,
        module=short_name(frame.module),
        values=told_values((*frame.arguments, *frame.locals)),
    )


def _others(view: CoreView) -> str | None:
    """Count the other threads, where what they do is no part of the answer."""
    best = view.diagnoses[0] if view.diagnoses else None
    if best is not None and best.topic is not Topic.WAITS:
        return None
    others = 0 if best is not None and best.id == "deadlock" else len(view.threads) - 1
    return counted(others, "other thread") if others else None
