"""How a headline says that it is not sure: one way for all kinds of reports."""

from collections.abc import Sequence

from postmortem.report.model import Confidence, Diagnosis, Role

_MOST_NAMED = 3


def doubt(best: Diagnosis) -> str:
    """Return what stands before a root that is merely possible: ``"possibly "``, else nothing."""
    unsure = best.role is Role.ROOT and best.confidence is Confidence.POSSIBLE
    return "possibly " if unsure else ""


def hedged(roots: Sequence[Diagnosis], *, after: str = "") -> str:
    """Return the best of some diagnoses, hedged, and with its rivals where it is merely possible.

    `after` says more of the best one, where it stands alone.
    """
    best = roots[0]
    if doubt(best):
        rivals = [d.title for d in roots[1:_MOST_NAMED] if d.role is Role.ROOT and d.id != best.id]
        if rivals:
            return f"undecided between {best.title}; and {'; and '.join(rivals)}"
    return f"{doubt(best)}{best.title}{after}"
