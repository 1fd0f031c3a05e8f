"""Looks up which known words errors have: the knowledge base tells what they say of a rank."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from postmortem.facts.rank_logs import LogFailure, Remark, Said
from postmortem.readers.signatures import Signatures
from postmortem.records import replace

_LONGEST = 64 << 10
"""Characters of a message that are looked at."""
_OF_STARTS = ("gai error", "EADDRINUSE", "ddress already in use", "no socket interface found")
"""What launchers say when a job does not start; other remarks are no errors."""


def with_known_words(failures: Sequence[LogFailure]) -> list[LogFailure]:
    """Return failures with the signatures that each of their exceptions has."""
    texts = dict.fromkeys(_words(said) for failure in failures for said in _all(failure))
    found = dict(zip(texts, known_words(texts), strict=True))

    def told(said: Said) -> Said:
        known = found[_words(said)]
        return replace(said, known=known) if known else said

    return [
        replace(
            failure,
            said=told(failure.said),
            causes=tuple(map(told, failure.causes)),
            parts=tuple(map(told, failure.parts)),
        )
        if any(found[_words(said)] for said in _all(failure))
        else failure
        for failure in failures
    ]


def remarks_with_known_words(remarks: Sequence[Remark]) -> list[Remark]:
    """Return remarks, those about the start of a job with their signatures."""
    texts = [remark.text if any(w in remark.text for w in _OF_STARTS) else "" for remark in remarks]
    if not any(texts):
        return list(remarks)
    return [
        replace(remark, known=known) if known else remark
        for remark, known in zip(remarks, known_words(texts), strict=True)
    ]


def known_words(texts: Iterable[str]) -> list[tuple[str, ...]]:
    """Return, for each text as a whole, the ids of the signatures that it has."""
    begins, ends = array("q"), array("q")
    pieces: list[bytes] = []
    at = 0
    for text in texts:
        piece = text[:_LONGEST].encode("utf-8", "surrogateescape")
        begins.append(at)
        at += len(piece)
        ends.append(at)
        pieces.append(piece)
    found: list[list[str]] = [[] for _ in pieces]
    if at:
        known = Signatures.load("log", "error message")
        for line, signature in known.find_lines(b"".join(pieces), begins, ends):
            found[line].append(known.signatures[signature].id)
    return [tuple(ids) for ids in found]


def _all(failure: LogFailure) -> tuple[Said, ...]:
    return (failure.said, *failure.causes, *failure.parts)


def _words(said: Said) -> str:
    return f"{said.exception}: {said.message}"
