"""Looks up which known words errors have: the knowledge base tells what they say of a rank."""

from collections.abc import Sequence

from postmortem.facts.rank_logs import ExceptionText, LogFailure
from postmortem.facts.signature import Match
from postmortem.knowledge.messages import briefs
from postmortem.readers.signatures import Signatures
from postmortem.records import replace

_PEERS = (
    "last-error-peer", "last-error-closed", "last-error-died", "last-error-crashed",
    "last-error-word-peer",
)  # fmt: skip
_ROUTE = "last-error-route"
_OF_PEERS = ("closed", "waited")  # parts of messages, as exceptions with them are told


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


def reason(text: str) -> str:
    """Return the id of the first message in a line that is a fault of its own, as a log has it."""
    table = briefs()
    known = (table[match.id] for match in _messages(text))
    return next((one.id for one in known if one.role == "root" and "log" in one.where), "")


def about_peer(said: str, ids: Sequence[str]) -> bool:
    """Return whether the line that tells the most only says that a peer is gone."""
    if _ROUTE in ids:
        return False
    parts = {briefs()[match.id].part for match in _messages(said)}
    return not parts.isdisjoint(_OF_PEERS) or not set(_PEERS).isdisjoint(ids)


def _messages(text: str) -> tuple[Match, ...]:
    return Signatures.load("log", "error message").matches([text])[0] if text else ()
