"""Versions of libraries in order, and whether one lies in a range such as ``>=2.13, <2.16.5``."""

import re

from postmortem.patterns import Pattern
from postmortem.records import record

# "2.27.5+cuda12.4", "v2.29.3-1", "2.4.0rc2", "2.3.0a0+git1", "1.13.0.dev20220901", "535.104.05"
_FORM = Pattern(r"v?(\d{1,9}(?:\.\d{1,9}){0,5})[-_.]?(a|b|c|rc|alpha|beta|pre|dev)?", re.ASCII)
_TERM = Pattern(r"(>=|<=|<|>)\s*(\S+)", re.ASCII)


@record
class Version:
    """A version that can be compared."""

    release: tuple[int, ...]
    """Without zeros at its end: 2.9 is 2.9.0."""
    before: bool = False
    """It came before the release of that number: a candidate, a nightly build."""

    @property
    def key(self) -> tuple[tuple[int, ...], bool]:
        """What versions are in the order of."""
        return self.release, not self.before


def version(text: str) -> Version | None:
    """Return the version that a text begins with; None if there is none.

    What stands behind a plus (the build) or behind a dash (the package) is left out.
    """
    found = _FORM.match(text.strip()[:80])
    if found is None:
        return None
    numbers = [int(part) for part in found[1].split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return Version(tuple(numbers), found[2] is not None)


def bounds(affected: str) -> tuple[tuple[str, str], ...]:
    """Return the terms of a range: ``((">=", "2.13"), ("<", "2.16.5"))``; ValueError if odd."""
    terms = []
    for part in affected.split(","):
        found = _TERM.fullmatch(part.strip())
        if found is None or version(found[2]) is None:
            raise ValueError(f"no range of versions: {affected!r}")
        terms.append((found[1], found[2]))
    return tuple(terms)


def is_in(one: Version, affected: str) -> bool:
    """Return whether a version lies in a range."""
    return all(_holds(one, sign, version(limit)) for sign, limit in bounds(affected))


def _holds(one: Version, sign: str, limit: Version | None) -> bool:
    if limit is None:
        return False
    if sign == ">=":
        return one.key >= limit.key
    if sign == ">":
        return one.key > limit.key
    return one.key < limit.key if sign == "<" else one.key <= limit.key
