"""From the reports of all readers to one incident."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from postmortem.diagnose.incident.belonging import job_of, judged, standing_alone
from postmortem.diagnose.incident.common import Document
from postmortem.diagnose.incident.events import EFFECTS, ENDED_BY_KERNEL, Event, EventType, wrote
from postmortem.diagnose.incident.explains import REFUSALS, TABLE
from postmortem.diagnose.incident.from_logs import of_logs
from postmortem.diagnose.incident.from_machine import of_doctor
from postmortem.diagnose.incident.from_processes import (
    of_core,
    of_gpu_core,
    of_gpu_memory,
    of_hang,
    of_scan,
    of_strace,
    of_watch,
)
from postmortem.diagnose.incident.graph import Incident, solve
from postmortem.facts.process_role import AGENT
from postmortem.facts.signature import Match
from postmortem.records import record, replace

_OF_KIND = {
    "core": of_core,
    "doctor": of_doctor,
    "gpu_core": of_gpu_core,
    "gpu_memory": of_gpu_memory,
    "hang": of_hang,
    "logs": of_logs,
    "scan": of_scan,
    "strace": of_strace,
    "watch": of_watch,
}

KnownIn: TypeAlias = Callable[[Iterable[str]], Sequence[tuple[Match, ...]]]
"""The known messages of each of some texts."""

_NONE: Mapping[int, str] = MappingProxyType({})
_ONLY_CAUSES = frozenset({EventType.DAMAGED, EventType.FULL, EventType.NODE_DOWN})


@record
class Judged:
    """The incident, and what of the evidence is of another job or joined with nothing."""

    incident: Incident[Event]
    document_of: tuple[int, ...]
    """For each event the index of its report."""
    foreign: Mapping[int, str]
    """Index of a report to why it is of another job."""
    apart: Mapping[int, str]
    """Index of a report to why it tells nothing of the job's failure."""


def judge(
    documents: Sequence[Document],
    known_in: KnownIn,
    outdated: Mapping[int, str] = _NONE,
    of_the_end: Collection[int] = (),
) -> Judged:
    """Return one incident out of reports, in their order.

    Of those that are `outdated` it is known, by the clock, that they are of before its end; those
    `of_the_end` were written as the logs stopped.
    """
    job = job_of(documents)
    looked: dict[object, int] = {}  # at whom, and in which report first
    events: list[Event] = []
    origin: list[int] = []
    foreign: dict[int, str] = dict(outdated)
    logs = [one for one in documents if one["kind"] == "logs"]
    only_stop = not any(one.get("outcome") != "unknown" or one.get("done") for one in logs)
    for index, document in enumerate(documents):
        if index in outdated:
            continue
        for event in _quoting(_OF_KIND.get(document["kind"], _nothing)(document), known_in):
            event, why = judged(event, document, job)
            if why is not None:
                foreign[index] = why
            who = (event.type, event.source, event.host, event.ranks, event.pid)
            again = (event.pid or event.ranks) and looked.setdefault(who, index) != index
            if event.belongs is False or again:
                continue
            if index in of_the_end and only_stop and event.type in ENDED_BY_KERNEL:
                event = replace(event, belongs=True)
            events.append(event)
            origin.append(index)
    events, origin, apart = _without_survived(*_one_by_one(events, origin), documents)
    events, origin, outlived = _without_outlived(events, origin, documents)
    apart |= outlived
    incident = solve(events, TABLE)
    linked = {end for link in incident.links for end in (link.cause, link.effect)}
    alone = set(standing_alone(events, linked, documents))
    joined = {origin[index] for index in range(len(events)) if index not in alone}
    apart |= {origin[index]: "nothing links it to the rest" for index in alone}
    apart = {index: why for index, why in sorted(apart.items()) if index not in joined}
    beside = (i for i, one in enumerate(events) if one.type in _ONLY_CAUSES)
    alone |= {i for i in beside if not incident.hit_by(i)}
    roots = tuple(index for index in incident.roots if index not in alone)
    roots = tuple(i for i in roots if not _is_beside(incident, i, roots)) or roots
    return Judged(replace(incident, roots=roots), tuple(origin), foreign, apart)


def _quoting(events: Iterable[Event], known_in: KnownIn) -> Iterator[Event]:
    """Yield events with the messages that they quote: an error may be about a rank's numbers."""
    for event in events:
        what, cause = known_in([event.what, event.cause])
        kind = event.type
        if kind is EventType.RAISED and any(match.id == "numbers-not-finite" for match in what):
            kind = EventType.NON_FINITE
        yield replace(event, type=kind, matches=(*what, *cause))


def _without_survived(
    events: list[Event], origin: list[int], documents: Sequence[Document]
) -> tuple[list[Event], list[int], dict[int, str]]:
    """Return the events without errors that their process wrote, and then ended with 0.

    A log of errors alone tells nothing of what came after: a recording of the process does.
    """
    calm = (d for d in documents if d["kind"] == "strace" and d.get("outcome") != "failed")
    rows = (row for one in calm for row in one.get("processes") or ())
    ended = (row for row in rows if (row.get("exit") or {}).get("code") == 0)
    lines = [line for row in ended for line in row.get("last_words", ())]
    known = [
        event.source == "logs"
        and event.type is EventType.RAISED
        and not event.ranks
        and wrote(lines, event.what)
        for event in events
    ]
    apart = {origin[i]: "who wrote its error ended with 0" for i, gone in enumerate(known) if gone}
    kept = [i for i, gone in enumerate(known) if not gone]
    return [events[i] for i in kept], [origin[i] for i in kept], apart


def _without_outlived(
    events: list[Event], origin: list[int], documents: Sequence[Document]
) -> tuple[list[Event], list[int], dict[int, str]]:
    """Return the events without the ends of workers that their program lost, and went on.

    Whose workers they were, only a log says that has an error which its program survived.
    """
    logs = [d for d in documents if d["kind"] == "logs"]
    calm = bool(logs) and all(d.get("outcome") != "failed" for d in logs)
    if not calm or not any(row.get("survived") for d in logs for row in d.get("tracebacks", ())):
        return events, origin, {}
    cores = (e for e in events if e.source == "core" and e.belongs is None)
    pids = {e.pid for e in cores if e.role not in (None, AGENT)} - {None}
    gone = [e.pid in pids and e.type in ENDED_BY_KERNEL for e in events]
    apart = {
        origin[i]: "its program lost it, and went on"
        for i, event in enumerate(events)
        if gone[i] and event.source == "core"
    }
    kept = [i for i in range(len(events)) if not gone[i]]
    return [events[i] for i in kept], [origin[i] for i in kept], apart


def _one_by_one(events: list[Event], origin: list[int]) -> tuple[list[Event], list[int]]:
    """Return the events, one that hit several ranks as one of each where more is known of one."""
    known = {e.ranks for e in events if e.source != "logs" and len(e.ranks) == 1 and not e.role}
    found: list[tuple[Event, int]] = []
    for event, index in zip(events, origin, strict=True):
        ranks = [(rank,) for rank in event.ranks]
        if event.type is EventType.CRASHED and len(ranks) > 1 and known & set(ranks):
            found += [(replace(event, ranks=one), index) for one in ranks]
        else:
            found.append((event, index))
    return [event for event, _ in found], [index for _, index in found]


def _is_beside(incident: Incident[Event], root: int, roots: Sequence[int]) -> bool:
    """Return whether a root broke nothing of the job, whose logs tell what did.

    That is a child that died, a call that failed, or a core, of a rank that only lost its peers
    later.
    """
    event = incident.events[root]
    told = [incident.events[one] for one in roots if one != root]
    told = [one for one in told if one.source == "logs" and one.belongs]
    if not told:
        return False
    logs = [e for e in incident.events if e.source == "logs"]
    lost = {rank for e in logs if e.type is EventType.LOST_PEER for rank in e.ranks}
    crashed = event.type is EventType.CRASHED and lost.issuperset(event.ranks)
    if not (event.role or event.type in REFUSALS or crashed):
        return False
    ended = (e for e in logs if e.type not in EFFECTS)
    return bool(event.ranks) and not any(set(event.ranks) & set(one.ranks) for one in ended)


def ranks_of(incident: Incident[Event], root: int) -> tuple[int, ...]:
    """Return whose fault it is: its own ranks, else those that it hit first, no victims."""
    if incident.events[root].ranks:
        return incident.events[root].ranks
    hit = (incident.events[index] for index in incident.hit_by(root))
    return tuple(sorted({rank for one in hit if one.type not in EFFECTS for rank in one.ranks}))


def _nothing(document: Document) -> tuple[Event, ...]:
    return ()
