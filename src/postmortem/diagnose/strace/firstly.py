"""What the verdict of a log says first."""

from __future__ import annotations

from collections.abc import Sequence

from postmortem.report.model import Confidence, Diagnosis, Role

_HANDLED = "the process went on and exited with 0"


def said_first(diagnoses: Sequence[Diagnosis]) -> str | None:
    """Return the best diagnosis in words, hedged as it must be; nothing if all are in passing."""
    best = diagnoses[0] if diagnoses else None
    if best is None or best.role is Role.CONTEXT:
        return None
    if best.role is Role.CONTRIBUTING:
        if best.id == "known_last_words":  # only of processes that failed
            return best.title
        return f"no process failed for it, but: {best.title}"
    survived = f" ({_HANDLED})" if _HANDLED in best.cause else ""
    possibly = best.role is Role.ROOT and best.confidence is Confidence.POSSIBLE
    if possibly:
        others = [d for d in diagnoses[1:3] if d.role is Role.ROOT and d.id != best.id]
        if others:
            return f"undecided between: {best.title}; and {'; and '.join(d.title for d in others)}"
    return f"{'possibly: ' if possibly else ''}{best.title}{survived}"
