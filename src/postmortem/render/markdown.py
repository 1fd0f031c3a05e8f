"""Writes a report as GitHub Markdown, for pasting into an issue.

Nothing in evidence may act on the page: no mention, no link, no image, no HTML, no end of a code
fence. A backslash is not enough for that, since GitHub looks for mentions and links in the text
after Markdown has been rendered; in code it does not look. So each word that could act is set
as code.
"""

import re
from collections.abc import Iterable, Sequence
from typing import TextIO, assert_never

from postmortem.patterns import Pattern
from postmortem.records import replace
from postmortem.render import safe
from postmortem.render.card import text as card_text
from postmortem.render.layout import block_lines
from postmortem.render.page import Page
from postmortem.report.blocks import Backtrace, Block, Excerpt, KeyValues, Note, Prose, Table, Tone
from postmortem.report.card import Card
from postmortem.report.model import Diagnosis, Report, Role, Skipped

# GitHub refuses an issue above 65,536 characters.
_BUDGET = 60_000

# Code blocks scroll sideways: stacks are laid out wide, and folded away when they are long.
_PAGE = Page(width=140)
_LONG = 30

_ACTS = Pattern(
    r"[\\`*_{}\[\]<>~&$|@#^]|://|::|www\.|\bGH-\d|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b"
    r"|\b(?:mailto|xmpp):",
    re.IGNORECASE,
)
_EDGES = Pattern(r"([(\"']*)(.*?)([)\"'.,;:!?]*)", re.DOTALL)
_LINE_START = Pattern(r"^([-+](?=\s|$)|-+(?=\s*$)|=+(?=\s*$)|\d+(?=[.)](?:\s|$)))")
_LINKABLE = Pattern(r"https://[A-Za-z0-9./_#?=%~:-]+")


def render(report: Report, out: TextIO, *, verbose: bool = False, card: Card | None = None) -> None:
    """Write the report, at most as long as an issue may be; its card stands first."""
    parts = [f"### {inline(report.verdict)}"]
    if card is not None:
        parts.append(_code_block(card_text(card)))
    parts += [_diagnosis(item, first=number == 0) for number, item in enumerate(report.diagnoses)]
    optional = [_block(item) for item in report.blocks]
    ending = _ending(report, verbose)
    used = sum(map(len, parts)) + sum(map(len, ending))
    for number, part in enumerate(optional):
        used += len(part) + 2
        if used > _BUDGET:
            parts.append(f"*{len(optional) - number} more parts left out to fit into an issue*")
            break
        parts.append(part)
    out.write("\n\n".join(part for part in [*parts, *ending] if part) + "\n")


def inline(text: str) -> str:
    """Return text as one line of Markdown that shows exactly this text."""
    words = safe.line(text).split(" ")
    shown: list[str] = []
    code: list[str] = []
    for word in words:
        if _ACTS.search(word):
            code.append(word)
            continue
        if code:
            shown.append(_code(" ".join(code)))
            code = []
        shown.append(word)
    if code:
        shown.append(_code(" ".join(code)))
    # Runs of spaces would collapse; they set facts apart.
    joined = re.sub(" {2,}", " · ", " ".join(shown).strip())
    return _LINE_START.sub(lambda match: _escaped_start(match[1]), joined)


def _escaped_start(mark: str) -> str:
    return f"{mark}\\" if mark[0].isdigit() else f"\\{mark}"


def _code(text: str) -> str:
    match = _EDGES.fullmatch(text)
    assert match is not None  # every part of it may be empty
    before, middle, after = match.groups()
    while after.startswith(")") and middle.count("(") > middle.count(")"):
        middle, after = middle + ")", after[1:]
    if not middle or _ACTS.search(before + after):
        before, middle, after = "", text, ""
    if "|" in middle:  # a table cell ends at a pipe, even in code and after two backslashes
        return f"{before}<code>{_entities(middle)}</code>{after}"
    fence = "`" * (max(map(len, re.findall("`+", middle)), default=0) + 1)
    padding = " " if middle.startswith("`") or middle.endswith("`") else ""
    return f"{before}{fence}{padding}{middle}{padding}{fence}{after}"


def _entities(text: str) -> str:
    return "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in text)


def _diagnosis(diagnosis: Diagnosis, *, first: bool) -> str:
    sure = diagnosis.confidence.value
    if diagnosis.role is not Role.ROOT:
        sure = f"{diagnosis.role.value}, {sure}"
    parts = [f"**{'Cause' if first else 'Also'}** ({sure}): {inline(diagnosis.title)}"]
    if diagnosis.cause:
        parts.append(_paragraph(diagnosis.cause))
    if diagnosis.evidence:
        rows = [(item.where, item.what) for item in diagnosis.evidence]
        parts.append(_grid(("where", "what was seen"), rows))
    if diagnosis.next_steps:
        steps = (f"{i}. {inline(step)}" for i, step in enumerate(diagnosis.next_steps, start=1))
        parts.append("**Next**\n\n" + "\n".join(steps))
    if diagnosis.references:
        parts.append("**Read** " + ", ".join(_reference(item) for item in diagnosis.references))
    return "\n\n".join(parts)


def _reference(text: str) -> str:
    return f"<{text}>" if _LINKABLE.fullmatch(text) else inline(text)


def _block(block: Block) -> str:
    match block:
        case Prose():
            return _titled(block.title, _paragraph(block.text))
        case KeyValues():
            return _titled(block.title, _grid(("", ""), block.rows))
        case Table():
            return _titled(block.title, _grid(block.columns, block.rows, block.right_aligned))
        case Backtrace() | Excerpt():
            return _fenced(block)
        case Note():
            mark = "**!** " if block.tone in (Tone.BAD, Tone.WARNING) else ""
            return f"> {mark}{inline(block.text)}"
        case _:
            assert_never(block)


def _titled(title: str | None, text: str) -> str:
    return text if title is None else f"#### {inline(title)}\n\n{text}"


def _paragraph(text: str) -> str:
    return "  \n".join(inline(row) for row in safe.block(text).split("\n"))


def _grid(
    heads: Sequence[str], rows: Iterable[Sequence[str]], right_aligned: Sequence[int] = ()
) -> str:
    rules = ["---:" if i in right_aligned else "---" for i in range(len(heads))]
    lines = [_grid_row(map(inline, heads)), _grid_row(rules)]
    lines += [_grid_row(map(_cell, row)) for row in rows]
    return "\n".join(lines)


def _grid_row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _cell(text: str) -> str:
    return "<br>".join(inline(row) for row in safe.block(text).split("\n"))


def _fenced(block: Backtrace | Excerpt) -> str:
    bare = replace(block, title="")
    lines = block_lines(
        _PAGE, replace(bare, subtitle=None) if isinstance(bare, Backtrace) else bare
    )
    rows = ["".join(text for text, _ in line).rstrip() for line in lines[1:]]  # [0]: the title
    body = safe.block("\n".join(rows))
    code = _code_block(body)
    subtitle = block.subtitle if isinstance(block, Backtrace) else None
    if body.count("\n") > _LONG:
        title = _entities(safe.line(block.title))
        return f"<details><summary>{title}</summary>\n\n{code}\n\n</details>"
    return _titled(f"{block.title}   {subtitle}" if subtitle else block.title, code)


def _code_block(body: str) -> str:
    fence = "`" * max(max(map(len, re.findall("`+", body)), default=0) + 1, 3)
    return f"{fence}text\n{body}\n{fence}"


def _ending(report: Report, verbose: bool) -> list[str]:
    parts: list[str] = []
    if report.problems:
        items = (
            f"- {inline(p.where)}: {inline(p.what)}{f' → {inline(p.remedy)}' if p.remedy else ''}"
            for p in report.problems
        )
        parts.append("**Trouble**\n\n" + "\n".join(items))
    if verbose and report.skipped:
        parts.append(
            "**Rules that lacked a fact**\n\n" + "\n".join(_skipped(s) for s in report.skipped)
        )
    if report.footer_line:
        parts.append(f"<sub>{inline(report.footer_line)}</sub>")
    return parts


def _skipped(item: Skipped) -> str:
    remedy = f": {inline(item.remedy)}" if item.remedy else ""
    return f"- {inline(item.rule)} needs {inline(item.missing)}{remedy}"
