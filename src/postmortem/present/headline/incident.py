"""What all evidence of a job together says first."""

from collections.abc import Sequence

from postmortem.diagnose.incident.events import Event, EventType
from postmortem.diagnose.incident.graph import Incident
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.present.triage.words import Document, beside_calm_logs, chain, step_words, verb
from postmortem.report.model import Confidence
from postmortem.text import more

_STEPS_IN_VERDICT = 3


def short_step(event: Event) -> str:
    """Return a later step in few words, for the verdict."""
    if event.type is EventType.LOST_PEER:
        return f"{event.actor} lost it"
    return f"{event.actor} {verb(event).removesuffix(':')}" + (
        f" {clip(event.what, 60)}" if event.type is EventType.RAISED else ""
    )


def headline(incident: Incident[Event], documents: Sequence[Document], *, read: bool = True) -> str:
    """Return one sentence: the roots, and in few words what they brought about.

    Unless all evidence was `read`, what was says nothing of the whole.
    """
    alone = len(documents) == 1 and (read or documents[0].get("outcome") != "healthy")
    if alone and not explained_by_kernel(incident, documents[0]):
        return str(documents[0]["verdict"])
    if not incident.roots:
        return _undecided(documents, read=read)
    said = []
    for root in incident.roots[:2]:
        steps = chain(incident, root)
        event = incident.events[root]
        first = first_step(incident, root)
        rest = (incident.events[index] for index in steps[1:])
        later = [step for step in rest if _is_told(step, event)]
        said.append(" → ".join([first, *map(short_step, later[:_STEPS_IN_VERDICT])]))
    also = more(len(incident.roots) - len(said), "; and {} more")
    return "; and apart from it: ".join(said) + also + beside_calm_logs(incident, documents)


def explained_by_kernel(incident: Incident[Event], document: Document) -> bool:
    """Return whether a line of the kernel explains what the verdict of the logs is about."""
    roots = [incident.events[root] for root in incident.roots[:1]]
    first = any(one.order == 0 and one.source == "logs" for one in incident.events)
    later = any(one.source == "logs" and one.order for one in roots)
    return first and later and document.get("decided_by") != CauseKind.KERNEL


def first_step(incident: Incident[Event], root: int) -> str:
    """Return what a root is, hedged as it must be."""
    event = incident.events[root]
    unsure = "possibly " if event.confidence is Confidence.POSSIBLE else ""
    return f"{unsure}{step_words(event)}"


def _is_told(step: Event, root: Event) -> bool:
    """Return whether a step adds to the first one: whom else it hit, or how it ended."""
    same = (step.type, step.ranks or step.actor) == (root.type, root.ranks or root.actor)
    return bool(step.ranks or step.label) and not same


def _undecided(documents: Sequence[Document], *, read: bool) -> str:
    failed = [one for one in documents if one.get("outcome") == "failed"]
    if failed:
        return next(
            (str(one["verdict"]) for one in failed if one["kind"] == "logs"),
            str(failed[0]["verdict"]),
        )
    if read and all(one.get("outcome") == "healthy" for one in documents):
        return "no failure: every kind of evidence says that all went well"
    return "nothing here says that anything failed, nor that all went well"
