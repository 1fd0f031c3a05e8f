"""The page: verdict, conclusions with their evidence, incident, details, what was read."""

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TextIO

from postmortem._version import __version__
from postmortem.patterns import Pattern
from postmortem.render.card import text as card_text
from postmortem.render.html import incident
from postmortem.render.html.markup import block, lines, table, text
from postmortem.report.card import Card
from postmortem.report.model import Diagnosis, Report
from postmortem.text import size

_LINK = Pattern(r"https://[A-Za-z0-9./_#?=%~:&;-]+")
_FOLDER = Path(__file__).parent


def render(report: Report, out: TextIO, *, card: Card | None = None) -> None:
    """Write the report as one page, its card first; all that it needs is in it."""
    style, script = _asset("page.css"), _asset("page.js")
    out.write(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="postmortem {__version__}">\n'
        f"<title>{text(report.verdict)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    )
    parts = list(_sections(report))
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in parts)
    outcome = report.outcome.value
    out.write(
        f'<header><span class="badge {outcome}">{outcome}</span> '
        f'<span class="meta">postmortem {text(report.kind)}</span>'
        f"<h1>{text(report.verdict)}</h1>"
        f'<p class="meta">{text(report.footer_line)}</p><nav>{links}</nav></header>\n<main>\n'
    )
    if card is not None:
        out.write(f'<pre class="card">{lines(card_text(card))}</pre>\n')
    for name, title, markup in parts:
        out.write(f'<section id="{name}" aria-label="{title}"><h2>{title}</h2>{markup}</section>\n')
    out.write(f"</main>\n<script>{script}</script>\n</body>\n</html>\n")


def _sections(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield (id, title, markup) of all parts that there are."""
    if incident.is_incident(report.body):
        yield "chain", "Chain of events", incident.chain(report.body)
        matrix = incident.matrix(report.body)
        if matrix:
            yield "ranks", "Ranks and evidence", matrix
    sources = {s.path.rpartition("/")[2]: f"file-{i}" for i, s in enumerate(report.inputs)}
    if report.diagnoses:
        told = (_diagnosis(d, f"c{i}", sources) for i, d in enumerate(report.diagnoses))
        yield "conclusions", "Conclusions", "".join(told)
    if report.blocks:
        yield "details", "Details", "".join(map(block, report.blocks))
    if report.inputs:
        rows = [
            (
                text(s.path),
                text(size(s.size_bytes)),
                text(s.compression or ""),
                "cut" if s.truncated else "",
            )
            for s in report.inputs
        ]
        ids = [f"file-{i}" for i in range(len(rows))]
        yield "files", "What was read", table(("file", "size", "packed", ""), rows, ids=ids)
    if report.problems:
        rows3 = [(text(p.where), lines(p.what), lines(p.remedy or "")) for p in report.problems]
        yield "problems", "What could not be read", table(("where", "what", "remedy"), rows3)
    if report.skipped:
        rows3 = [(text(s.rule), text(s.missing), lines(s.remedy or "")) for s in report.skipped]
        title = "Rules that lacked a fact"
        heads = ("rule", "fact", "what would supply it")
        markup = f"<details><summary>{len(rows3)} rules</summary>{table(heads, rows3)}</details>"
        yield "skipped", title, markup


def _diagnosis(diagnosis: Diagnosis, name: str, sources: dict[str, str]) -> str:
    role, sure = diagnosis.role.value, diagnosis.confidence.value
    parts = [
        f'<article id="{name}" class="is-{role}"><h3><span class="badge {role}">{role}</span> '
        f'<span class="badge">{sure}</span> {text(diagnosis.title)}</h3>',
        f"<p>{lines(diagnosis.cause)}</p>" if diagnosis.cause else "",
    ]
    if diagnosis.evidence:
        rows = [(_where(e.where, sources), lines(e.what)) for e in diagnosis.evidence]
        ids = [f"{name}-e{i}" for i in range(len(rows))]
        parts.append(table(("seen at", "what"), rows, ids=ids, sortable=False))
    if diagnosis.next_steps:
        steps = "".join(f"<li>{lines(step)}</li>" for step in diagnosis.next_steps)
        parts.append(f"<h3>What to do</h3><ol>{steps}</ol>")
    links = [_reference(item) for item in diagnosis.references]
    if links:
        parts.append(f'<p class="quiet">{", ".join(links)}</p>')
    parts.append(f'<p class="quiet">postmortem rules {text(diagnosis.id)}</p></article>')
    return "".join(parts)


def _where(where: str, sources: dict[str, str]) -> str:
    """Return a place, linked with the file that it is in, where that was read."""
    file = where.rpartition(":")[0].rpartition("/")[2]
    return f'<a href="#{sources[file]}">{text(where)}</a>' if file in sources else text(where)


def _reference(item: str) -> str:
    if _LINK.fullmatch(item):
        return f'<a href="{text(item)}" rel="noreferrer noopener">{text(item)}</a>'
    return text(item)


@cache
def _asset(name: str) -> str:
    return "\n" + (_FOLDER / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return a policy under which only our own style and script run, and nothing is fetched."""
    marks = [
        base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        for part in (style, script)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{marks[0]}'; script-src 'sha256-{marks[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )
