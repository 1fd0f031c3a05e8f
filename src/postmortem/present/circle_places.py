"""Where threads stand that wait for each other."""

from postmortem.diagnose.core.signals.deadlock import asks_in, circle
from postmortem.diagnose.stacks.names import shorten
from postmortem.facts.threads import Threads, is_own
from postmortem.knowledge.modules import short_name
from postmortem.present.places import told_values
from postmortem.report.card import Place

_MOST_STUCK = 2


def circle_places(threads: Threads) -> tuple[Place, ...]:
    """Return where threads stand that wait for each other: the first two of a circle."""
    places = []
    for thread in circle(threads)[:_MOST_STUCK]:
        python = next((f for f in thread.frames if f.kind == "python" and is_own(f.file)), None)
        if python is None and not thread.frames:
            continue
        frame = python or thread.frames[asks_in(thread)]
        values = told_values((*frame.arguments, *frame.locals))
        module = None if python else short_name(frame.module)
        places.append(Place(shorten(frame.function), frame.file, frame.line, module, values))
    return tuple(places)
