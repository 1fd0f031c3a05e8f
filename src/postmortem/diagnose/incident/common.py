"""What all reports have: their best diagnoses, with confidence and evidence."""

from collections.abc import Mapping
from typing import Any, TypedDict

from postmortem.report.model import Confidence, Evidence

Document = Mapping[str, Any]


def best(document: Document) -> Mapping[str, Any] | None:
    """Return the first diagnosis."""
    found = document.get("diagnoses") or ()
    return found[0] if found else None


def roots_of(document: Document) -> list[Mapping[str, Any]]:
    """Return the diagnoses that a report calls roots."""
    return [row for row in document.get("diagnoses") or () if row["role"] == "root"]


def root_of(document: Document) -> Mapping[str, Any] | None:
    """Return the best root, if there is one."""
    return next(iter(roots_of(document)), None)


class Told(TypedDict):
    """What an event takes from a diagnosis as it stands."""

    confidence: Confidence
    evidence: tuple[Evidence, ...]
    next_steps: tuple[str, ...]
    cause: str


def told_by(diagnosis: Mapping[str, Any]) -> Told:
    """Return what a diagnosis says of its event; of its evidence the first rows."""
    return {
        "confidence": Confidence(diagnosis["confidence"]),
        "evidence": evidence(diagnosis),
        "next_steps": tuple(diagnosis["next_steps"]),
        "cause": str(diagnosis["cause"]),
    }


def alone(rank: int | None) -> tuple[int, ...]:
    """Return one rank as the ranks of an event; none where it is not known."""
    return () if rank is None else (rank,)


def evidence(diagnosis: Mapping[str, Any], most: int = 4) -> tuple[Evidence, ...]:
    """Return the first rows of what a diagnosis was concluded from."""
    return tuple(Evidence(str(e["where"]), str(e["what"])) for e in diagnosis["evidence"][:most])
