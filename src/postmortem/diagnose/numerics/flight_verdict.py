"""What went bad first in a flight file, as far as its frames tell what the monitor knew."""

from collections.abc import Sequence

from postmortem.diagnose.numerics.first_bad import (
    FirstBad,
    Origin,
    before_sum,
    first_bad,
    from_batch,
    is_bad,
    read_outside,
    with_beside,
)
from postmortem.facts.confidence import Confidence
from postmortem.facts.frames import Flight, Frame, Note, Phase
from postmortem.records import replace


def what_failed(flight: Flight) -> FirstBad | None:
    """Return what went bad first, unless it is a gradient that the run went on without.

    GradScaler's search for a scale makes infinite gradients on purpose, and discards them. A run
    that is stopped for a gradient has bad ones in its last batch: others may stop it too, as
    another rank does, or the number of batches that was asked for.
    """
    found = find_first_bad(flight)
    if found is None or found.origin is not Origin.GRADIENT:
        return found
    if flight.recorder.ended == "stopped" and _last_bad_batches(flight.frames):
        return found
    forward = [frame for frame in flight.frames if frame.phase is not Phase.BACKWARD]
    return found if first_bad(forward) is not None else None


def find_first_bad(flight: Flight) -> FirstBad | None:
    """Return what went bad first; gradients only where nothing else did.

    A gradient alone may have been discarded on purpose, as GradScaler does.
    """
    forward = [frame for frame in flight.frames if frame.phase is not Phase.BACKWARD]
    rank = flight.recorder.rank
    found = _explained(first_bad(forward, rank=rank), forward)
    if found is None:
        return _of_gradients(flight)
    if found.origin not in (Origin.WEIGHT, Origin.STATE):
        return found
    applied = _last_bad_batches([f for f in flight.frames if f.number < found.frame])
    gradient = first_bad(applied[-1:], rank=rank)
    if gradient is None:
        return found
    weight = f"{found.module}.{found.cell}".lstrip(".")
    gradient = _before_sum(gradient, flight.frames)
    hints = (f"it was applied: {weight} was bad in batch {found.batch}", *gradient.hints)
    return replace(gradient, confidence=Confidence.LIKELY, hints=hints)


def _of_gradients(flight: Flight) -> FirstBad | None:
    """Return the first bad gradient, where nothing else is bad.

    Those that were discarded before have no part in why a run was stopped. Of several bad batches
    right before that nobody can tell: the gradients of the first may have been kept, to accumulate.
    """
    rank = flight.recorder.rank
    last = _last_bad_batches(flight.frames) if flight.recorder.ended == "stopped" else []
    since = last[-1].number if last else 0
    kept = [f for f in flight.frames if f.number >= since or not any(map(is_bad, f.cells))]
    found = first_bad(kept, rank=rank)
    if found is None:
        return None
    found = _before_sum(found, flight.frames)
    return replace(found, confidence=Confidence.LIKELY) if len(last) > 1 else found


def _last_bad_batches(frames: Sequence[Frame]) -> list[Frame]:
    """Return the first bad gradient of each of the last batches, the latest first.

    Gradients that were discarded earlier are followed by clean ones.
    """
    batches: dict[int, Frame | None] = {}
    for frame in frames:
        if frame.phase is Phase.BACKWARD:
            bad = frame if any(map(is_bad, frame.cells)) else None
            batches[frame.batch] = batches.get(frame.batch) or bad
    run: list[Frame] = []
    for batch in sorted(batches, reverse=True):
        bad = batches[batch]
        if bad is None:
            break
        run.append(bad)
    return run


def _before_sum(found: FirstBad, frames: Sequence[Frame]) -> FirstBad:
    """Return what was found, or the gradient behind it that the monitor noted."""
    for frame in frames:
        if found.summed and frame.number > found.frame and frame.batch == found.batch:
            for cell in frame.cells:
                if cell.note is Note.BEFORE_SUM and is_bad(cell):
                    return before_sum(found, frame.class_name, cell)
    return found


def _explained(found: FirstBad | None, frames: Sequence[Frame]) -> FirstBad | None:
    """Return what was found, or the weight or data behind it, where the monitor noted any."""
    if found is None or found.origin not in (Origin.PRODUCER, Origin.BETWEEN):
        return found
    for frame in frames:
        if frame.number > found.frame and frame.batch == found.batch:
            came = first_bad([frame], rank=found.rank) if frame.phase is Phase.BATCH else None
            told = from_batch(found, came, frames) if came is not None else None
            if told is not None:
                return replace(told, frame=found.frame)
            for cell in frame.cells:
                if cell.note is Note.READ_OUTSIDE and is_bad(cell):
                    at = (frame.module, frame.class_name, cell)
                    return read_outside(found, *at, Confidence.LIKELY, frames)
                if cell.note is Note.BESIDE and is_bad(cell):
                    return with_beside(found, frame.module, frame.class_name, cell)
    return found
