"""How sure a conclusion is, and what part it has in a failure."""

from collections.abc import Iterable
from enum import StrEnum


class Role(StrEnum):
    """What part a diagnosis has in the failure.

    A cascade (something that died because something else did) or a context is never shown as the
    cause while a root is known.
    """

    ROOT = "root"
    CONTRIBUTING = "contributing"
    CASCADE = "cascade"
    CONTEXT = "context"


class Confidence(StrEnum):
    """How sure: the evidence states it, one known cause fits, or it is one of several."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


def weakest(degrees: Iterable[Confidence]) -> Confidence:
    """Return the least sure of several."""
    return max(degrees, key=list(Confidence).index)


class Outcome(StrEnum):
    """What became of what the evidence tells of."""

    FAILED = "failed"
    HEALTHY = "healthy"
    """The evidence itself says that it went well: it is never concluded from silence."""
    UNKNOWN = "unknown"
    """Nothing in the evidence settles it."""


class Topic(StrEnum):
    """What a diagnosis speaks of; the verdict is made of those on the failure."""

    FAILURE = "failure"
    WAITS = "waits"
    """Who waits for whom: which thread a signal happened to hit says nothing of it."""
    SNAPSHOT = "snapshot"
    """The process lived on."""
    PROCESS = "process"
    """Whose process it was, not what happened in it."""
    EVIDENCE = "evidence"
    """How far the evidence can be trusted."""
