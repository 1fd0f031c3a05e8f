"""Values out of somebody else's JSON, which may be of any type."""

import json

from postmortem.errors import EvidenceError


def whole(value: object) -> int | None:
    """Return a whole number, None for all else; true and false are none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def words(value: object) -> str | None:
    """Return a text that is not empty, None for all else."""
    return value if isinstance(value, str) and value else None


def parsed(text: str, path: str, what: str) -> object:
    """Return what a text in JSON says; raises EvidenceError, `what` it is then, if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(path, f"{what}: {error}") from None
