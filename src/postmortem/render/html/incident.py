"""What only a triage has: the chain of events, and which evidence speaks of which ranks."""

from collections.abc import Mapping, Sequence
from typing import Any

from postmortem.facts.rank_sets import rank_words
from postmortem.render.html.markup import table, text

_MOST_STEPS = 2_000


def chain(body: Mapping[str, Any]) -> str:
    """Return the events as a list, roots first, with what explains each and where it was seen."""
    roots = {row["id"] for row in body["roots"]}
    steps = sorted(body["chain"][:_MOST_STEPS], key=lambda row: row["id"] not in roots)
    places = {row["id"]: place for place, row in enumerate(steps, 1)}
    return f'<ol class="chain">{"".join(_step(row, roots, places) for row in steps)}</ol>'


def _step(row: Mapping[str, Any], roots: set[int], places: Mapping[int, int]) -> str:
    of = [f'<a href="#step-{i}">step {places[i]}</a>' for i in row["explained_by"] if i in places]
    is_root = row["id"] in roots
    why = f"explained by {', '.join(of)}" if of else "nothing explains it: a root" * is_root
    seen = "".join(
        f'<br><span class="where">{text(one["where"])}</span>'
        + (f" {text(one['what'])}" if one["what"] != row["what"] else "")
        for one in row["evidence"]
    )
    return (
        f'<li id="step-{row["id"]}"{" class=is-root" * is_root}><b>{places[row["id"]]}</b> '
        f'<span class="badge">{text(row["type"])}</span> <b>{text(row["actor"])}</b> '
        f"{text(row['what'])}<br>"
        f'<span class="quiet">{text(row["source"])}, {text(row["confidence"])}{"; " * bool(why)}'
        f"</span>{why}{seen}</li>"
    )


def matrix(body: Mapping[str, Any]) -> str:
    """Return ranks against kinds of evidence; ranks of which the same is told share a row."""
    roots = {row["id"] for row in body["roots"]}
    sources: list[str] = list(dict.fromkeys(row["source"] for row in body["chain"][:_MOST_STEPS]))
    told: dict[int, dict[str, list[Mapping[str, Any]]]] = {}
    for row in body["chain"][:_MOST_STEPS]:
        for rank in row["ranks"]:
            told.setdefault(rank, {}).setdefault(row["source"], []).append(row)
    groups: dict[tuple[object, ...], list[int]] = {}
    for rank in sorted(told):
        key = tuple(tuple(row["id"] for row in told[rank].get(s, ())) for s in sources)
        groups.setdefault(key, []).append(rank)
    if not groups:
        return ""
    rows = []
    for ranks in groups.values():
        marks = (
            "<br>".join(_mark(row, roots) for row in told[ranks[0]].get(source, ()))
            for source in sources
        )
        rows.append([text(rank_words(ranks, most=40)), *marks])
    return table(("ranks", *sources), rows)


def _mark(row: Mapping[str, Any], roots: set[int]) -> str:
    part = "root" if row["id"] in roots else "victim"
    return f'<a class="{part}" href="#step-{row["id"]}">{text(row["type"])}</a>'


def is_incident(body: Mapping[str, object]) -> bool:
    """Return whether a report has what these sections show."""
    return isinstance(body.get("chain"), Sequence) and isinstance(body.get("roots"), Sequence)
