"""Looks up which known words errors have: the knowledge base tells what they say of a rank."""

from collections.abc import Sequence

from postmortem.facts.rank_logs import ExceptionText, LogFailure
from postmortem.readers.signatures import Signatures
from postmortem.records import replace


def with_known_words(failures: Sequence[LogFailure]) -> list[LogFailure]:
    """Return failures with the messages that each of their exceptions holds."""
    texts = dict.fromkeys(_words(said) for failure in failures for said in _all(failure))
    found = dict(zip(texts, Signatures.load("log", "error message").matches(texts), strict=True))

    def told(said: ExceptionText) -> ExceptionText:
        matches = found[_words(said)]
        return replace(said, matches=matches) if matches else said

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


def _all(failure: LogFailure) -> tuple[ExceptionText, ...]:
    return (failure.said, *failure.causes, *failure.parts)


def _words(said: ExceptionText) -> str:
    return f"{said.exception}: {said.message}"
