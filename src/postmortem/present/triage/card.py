"""What an incident puts on its card: the chain from the cause to the end."""

from collections.abc import Iterator, Sequence

from postmortem.diagnose.incident.events import Event, EventType
from postmortem.diagnose.incident.graph import Incident
from postmortem.diagnose.incident.runs import Runs
from postmortem.facts.last_lines import LogExcerpt
from postmortem.present.card import short_data
from postmortem.present.headline.incident import explained_by_kernel, first_step
from postmortem.present.triage.runs import before_verdict, card_rows
from postmortem.present.triage.words import Document, beside_calm_logs, chain, restart, step_words
from postmortem.report.card import Highlights
from postmortem.report.said import last_part, says_nothing_new

_MOST_STEPS = 4
_MOST_ROOTS = 3
_MOST_CANDIDATES = 4


def triage_highlights(
    incident: Incident[Event], documents: Sequence[Document], runs: Runs
) -> Highlights:
    """Return the steps of the chain, and whether to start the job again."""
    whole = len(documents) == 1 and not explained_by_kernel(incident, documents[0])
    alone = str(documents[0]["verdict"]) if whole else ""
    rows = [
        *_chain(incident, documents, alone),
        *_candidates(incident, documents, alone),
        *card_rows(runs),
    ]
    advice = restart(incident, documents, runs)
    if advice is not None:
        rows.append(("restart", f"{'no' if advice[0] == 'stop' else 'yes'}: {advice[1]}"))
    excerpt = _excerpt(incident, documents)
    if not incident.roots or whole:
        return Highlights(rows=tuple(rows), excerpt=excerpt)
    first = first_step(incident, incident.roots[0])
    several = [incident.events[root].next_steps[:1] for root in incident.roots[:_MOST_ROOTS]]
    headline = f"{before_verdict(runs)}{first}{beside_calm_logs(incident, documents)}"
    steps = tuple(dict.fromkeys(step for one in several for step in one))
    # Of one root a diagnosis has all steps, where its report has any.
    own = len(steps) > 1 or not incident.events[incident.roots[0]].cause
    return Highlights(
        rows=tuple(rows), headline=headline, steps=steps if own else (), excerpt=excerpt
    )


def _excerpt(incident: Incident[Event], documents: Sequence[Document]) -> LogExcerpt | None:
    """Return the lines around the one that tells of the first root, or that a lone log cites."""
    first = [incident.events[root].evidence[:1] for root in incident.roots[:1]]
    told = [one.where for evidence in first for one in evidence]
    for found in filter(None, (one.get("excerpt") for one in documents)):
        place = f"{found['file']}:{found['line']}"
        if any(map(place.endswith, told)) or (len(documents) == 1 and not incident.roots):
            rows = {row["line"]: row["text"] for row in found["lines"]}
            if found["line"] in rows:
                return LogExcerpt(found["file"], found["line"], tuple(rows.items()))
    return None


def seen_at(where: str, documents: Sequence[Document]) -> str:
    """Return a place without folders, but for the last where two files have the same name."""
    name = last_part(where)
    file = name.partition(":")[0]
    inputs = {row["path"] for one in documents for row in one.get("inputs") or ()}
    alike = sum(path.rpartition("/")[2] == file for path in inputs)
    return "/".join(where.rsplit("/", 2)[-2:]) if alike > 1 and where.startswith("/") else name


def _chain(
    incident: Incident[Event], documents: Sequence[Document], verdict: str
) -> Iterator[tuple[str, str]]:
    """Yield the steps from the first root on, and the other roots that a verdict does not name."""
    for root in incident.roots[:1]:
        for one in incident.events[root].evidence[:1]:
            teller, _, told = one.what.rpartition(" says: ")
            more = f", {teller} says so" if teller else ""
            step = step_words(incident.events[root])
            known = one.what in step or told.startswith(step.rstrip("…"))
            if not known and not says_nothing_new(told, f"{step} {verdict}"):
                more = f": {short_data(one.what)}"
            yield "seen", f"{seen_at(one.where, documents)}{more}"
        later = [i for i in chain(incident, root)[1:] if not _is_ending(incident, i, root)]
        for place, index in enumerate(later[:_MOST_STEPS]):
            yield ("then" if not place else ""), _later(incident.events[index])
    for root in incident.roots[1:_MOST_ROOTS]:
        if incident.events[root].what not in verdict:
            yield "apart", first_step(incident, root)


def _is_ending(incident: Incident[Event], index: int, root: int) -> bool:
    """Return whether a step only says that the culprit's own process ended."""
    event, first = incident.events[index], incident.events[root]
    same = event.type in (EventType.EXITED, first.type) or event.what.startswith(first.what)
    process = event.pid is not None and event.pid == first.pid
    return same and (process or (event.ranks, event.role) == (first.ranks, first.role))


def _later(event: Event) -> str:
    if event.type is EventType.LOST_PEER:
        return f"{event.actor} lost {'its' if len(event.ranks) == 1 else 'their'} peer"
    return step_words(event)


def _candidates(
    incident: Incident[Event], documents: Sequence[Document], verdict: str
) -> Iterator[tuple[str, str]]:
    if incident.roots:
        return
    found = (row for one in documents for row in one.get("candidates") or ())
    rows = [row for row in found if row["why"].rstrip("…") not in verdict]
    for place, row in enumerate(rows[:_MOST_CANDIDATES]):
        who = f"rank {row['rank']}" if row["rank"] is not None else row["label"]
        yield ("maybe" if not place else ""), f"{who}: {row['why']}"
