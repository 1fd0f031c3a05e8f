"""From events to the roots of an incident: what nothing explains, and how much each explains."""

from collections.abc import Collection, Hashable, Sequence
from typing import Generic

from postmortem.diagnose.incident.events import EFFECTS
from postmortem.diagnose.incident.explains import E, Explains
from postmortem.records import record, replace
from postmortem.report.model import Confidence

_DEGREES = list(Confidence)


@record
class Link:
    """One event explains another."""

    cause: int
    """Index of the event."""
    effect: int
    row: str
    """Id of the row of the table that joins them."""
    confidence: Confidence


@record
class Incident(Generic[E]):
    """What became of a job, as far as its evidence goes."""

    events: tuple[E, ...]
    links: tuple[Link, ...]
    roots: tuple[int, ...]
    """Indices of events that nothing explains, the one that explains most first."""

    def causes_of(self, effect: int) -> tuple[Link, ...]:
        """Return what explains an event, the surest first."""
        found = [link for link in self.links if link.effect == effect]
        return tuple(sorted(found, key=lambda link: _DEGREES.index(link.confidence)))

    def hit_by(self, cause: int) -> tuple[int, ...]:
        """Return the events that an event surely or likely explains by itself."""
        return tuple(
            link.effect
            for link in self.links
            if link.cause == cause and link.confidence is not Confidence.POSSIBLE
        )

    def explained_by(self, root: int) -> tuple[int, ...]:
        """Return all events that would not be there without a root, in their order."""
        seen = {root}
        queue = [root]
        while queue:
            cause = queue.pop()
            for link in self.links:
                if link.cause == cause and link.effect not in seen:
                    seen.add(link.effect)
                    queue.append(link.effect)
        return tuple(sorted(seen - {root}))


def solve(
    events: Sequence[E], table: Sequence[Explains[E]], effects: Collection[Hashable] = EFFECTS
) -> Incident[E]:
    """Return the incident; the same events in the same order give the same answer.

    An event of one of the types in `effects` is never a root.
    """
    links = _links(events, table)
    explained = {link.effect for link in links if link.confidence is not Confidence.POSSIBLE}
    roots = [i for i, one in enumerate(events) if i not in explained and one.type not in effects]
    incident = Incident(tuple(events), links, ())
    roots.sort(key=lambda i: (-len(incident.explained_by(i)), *_rank(events[i]), i))
    return replace(incident, roots=tuple(roots))


def _rank(event: E) -> tuple[int, int]:
    return _DEGREES.index(event.confidence), event.order


def _links(events: Sequence[E], table: Sequence[Explains[E]]) -> tuple[Link, ...]:
    """Return who explains whom; of two that would explain each other the first row of the table."""
    found: dict[tuple[int, int], Link] = {}
    for row in table:
        for a, cause in enumerate(events):
            if cause.type not in row.causes:
                continue
            for b, effect in enumerate(events):
                if a == b or effect.type not in row.effects:
                    continue
                if (a, b) in found or _leads(found, b, a):
                    continue
                strength = row.join(cause, effect)
                if strength is not None:
                    found[a, b] = Link(a, b, row.id, strength)
    return tuple(found.values())


def _leads(found: dict[tuple[int, int], Link], begin: int, end: int) -> bool:
    """Return whether links lead from one event to another."""
    seen, queue = {begin}, [begin]
    while queue:
        at = queue.pop()
        if at == end:
            return True
        for cause, effect in found:
            if cause == at and effect not in seen:
                seen.add(effect)
                queue.append(effect)
    return False
