"""``postmortem rules``: lists what the program knows, or explains one piece of it.

Rules weigh evidence together and are code; signatures are known lines and are data, and so are
known bugs of libraries. All have ids, and no id is that of two.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from postmortem.cli.arguments import adding
from postmortem.cli.output import page_width, write_text
from postmortem.text import counted, first_sentence

if TYPE_CHECKING:
    from postmortem.diagnose.rule import Rule
    from postmortem.facts.bug import KnownBug
    from postmortem.facts.signature import Signature

SUMMARY = "list the diagnosis rules, or explain one of them"

EXAMPLES = """\
example:
  postmortem rules nccl_watchdog_abort
  postmortem rules --find 'shared memory'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = adding(parser)
    add(
        "id ID",
        "the rule, the signature of a known line, or the known bug to explain (default: list all)",
        nargs="?",
    )
    add("--find TEXT", "only those that have this in their text (default: all)")
    add("--json", "write JSON (default: text)")


def run(args: argparse.Namespace) -> int:
    """List or explain; an ID that does not exist is a usage error."""
    from postmortem.diagnose import rule
    from postmortem.knowledge.bugs import bugs
    from postmortem.knowledge.messages import signatures

    rules: Sequence[Rule] = [item for kind in rule.KINDS for item in rule.load(kind)]
    known: Sequence[Signature] = signatures()
    found: Sequence[KnownBug] = bugs()
    if args.id is not None:
        ids = [item.id for some in (rules, known, found) for item in some]
        rules = [item for item in rules if item.id == args.id]
        known = [item for item in known if item.id == args.id]
        found = [item for item in found if item.id == args.id]
        if not rules and not known and not found:
            _complain(args.id, ids)
            return 2
    if args.find is not None:
        rules = [item for item in rules if _has(args.find, _row(item))]
        known = [item for item in known if _has(args.find, vars(item))]
        found = [item for item in found if _has(args.find, vars(item))]
    if args.json:
        write_text(_json(rules, known, found))
    elif args.id is not None:
        texts = (*map(_rule_text, rules), *map(_signature_text, known), *map(_bug_text, found))
        write_text("".join(texts))
    else:
        write_text(_listed(rules, known, found, page_width(None, sys.stdout)))
    return 0


def _has(wanted: str, row: Mapping[str, object]) -> bool:
    from postmortem.report.strings import strings

    return wanted.casefold() in "\n".join(strings(tuple(row.values()))).casefold()


def _row(item: Rule) -> dict[str, object]:
    return {
        "id": item.id,
        "family": item.family,
        "role": item.role.value,
        "summary": _first_line(item),
        "documentation": item.documentation,
        "references": item.references,
    }


def _shown_by(item: KnownBug) -> Iterator[str]:
    """Yield what must be seen of a bug, all of it."""
    if item.signals:
        yield "signal " + " or ".join(item.signals)
    if item.messages or item.text:
        known = (f"the known line {name}" for name in item.messages)
        yield " or ".join((*known, *(f"the words {text!r}" for text in item.text)))
    if item.frames:
        yield "on one stack: " + ", ".join(item.frames)
    if item.modules:
        yield "code of " + " or ".join(f"{name}*" for name in item.modules)
    yield from (f"environment: {name}" for name in item.variables)


def _listed(
    rules: Sequence[Rule], known: Sequence[Signature], bugs: Sequence[KnownBug], width: int
) -> str:
    ordered = sorted(rules, key=lambda r: (r.family, r.id))
    lines = [
        *_table([(r.family, r.id, r.role.value, _first_line(r)) for r in ordered], width),
        *_table(
            [(f"known lines: {_spoken(s.family)}", s.id, s.role, _gist(s)) for s in known], width
        ),
        *_table([(f"known bugs: {b.family}", b.id, b.role, b.title) for b in bugs], width),
    ]
    found = f"{counted(len(rules), 'rule')}, {counted(len(known), 'signature')}"
    if bugs:
        found += f", {counted(len(bugs), 'known bug')}"
    return "\n".join([*lines, f"{found}; postmortem rules ID explains one", ""])


def _table(rows: Sequence[tuple[str, str, str, str]], width: int) -> Iterator[str]:
    """Yield the lines of (family, id, role, what it says), a title for each family."""
    from postmortem.render.wrapping import wrapped

    column = max((len(row[1]) for row in rows), default=0) + 2
    family = None
    for title, name, role, what in rows:
        if title != family:
            yield from ([] if family is None else [""])
            yield title
            family = title
        start = f"  {name:<{column}}{role:<14}"
        first, *others = wrapped(what, max(width - len(start), 24))
        yield (start + first).rstrip()
        yield from (" " * len(start) + row for row in others)
    if rows:
        yield ""


def _spoken(family: str) -> str:
    return family.replace("_", " ")


def _gist(item: Signature) -> str:
    """Return the first sentence of what a line means."""
    return f"{first_sentence(item.cause)}."


def _first_line(item: Rule) -> str:
    return (item.documentation.splitlines() or [""])[0]


def _rule_text(item: Rule) -> str:
    lines = [f"{item.id}   {item.family}, {item.role.value}", "", item.documentation]
    if item.references:
        lines += ["", "References", *(f"  {reference}" for reference in item.references)]
    return "\n".join([*lines, ""])


def _signature_text(item: Signature) -> str:
    width = page_width(None, sys.stdout)
    lines = [f"{item.id}   {_spoken(item.family)}, {item.role}"]
    lines += _part("What it means", [item.cause], width)
    lines += _part("What to do", [f"- {step}" for step in item.next_steps], width)
    if item.pattern is not None:
        lines += _part(f"The line ({', '.join(item.where)})", item.samples, width)
        lines += _part("It is found by", [item.pattern], width)
    else:
        lines += _part(f"Where it shows ({', '.join(item.where)})", [item.sign or ""], width)
    if item.frames:
        lines += _part("Functions in the stack", item.frames, width)
    if item.versions is not None:
        lines += _part("Versions", [item.versions], width)
    if item.rule is not None:
        more = f"{item.rule}: it weighs the rest of the evidence (postmortem rules {item.rule})"
        lines += _part("The rule that decides", [more], width)
    lines += _part("Reference", [item.reference], width)
    return "\n".join([*lines, ""])


def _bug_text(item: KnownBug) -> str:
    width = page_width(None, sys.stdout)
    machine = "" if item.machine == "any" else f" on {item.machine}"
    lines = [f"{item.id}   known bug of {item.library}, {item.role}"]
    lines += _part("What it is", [f"{item.title}."], width)
    lines += _part("Why", [item.cause], width)
    lines += _part("Versions", [f"{item.library} {one}{machine}" for one in item.affected], width)
    lines += _part("What must be seen, all of it", _shown_by(item), width)
    lines += _part("Fixed in", [item.fixed_in], width)
    lines += _part("What to do", [f"- {step}" for step in item.work_around], width)
    lines += _part("How sure it can be", [item.confidence], width)
    lines += _part("Reference", [item.reference], width)
    return "\n".join([*lines, ""])


def _part(title: str, paragraphs: Iterable[str], width: int) -> list[str]:
    from postmortem.render.wrapping import wrapped

    rows: list[str] = []
    for paragraph in filter(None, paragraphs):
        indent = "  " if paragraph.startswith("- ") else ""
        first, *others = wrapped(paragraph, max(width - 6, 24))
        rows += [f"    {first}", *(f"    {indent}{row}" for row in others)]
    return ["", title, *rows] if rows else []


def _json(rules: Sequence[Rule], known: Sequence[Signature], bugs: Sequence[KnownBug]) -> str:
    import json

    from postmortem._version import __version__

    document = {
        "schema": "postmortem/1",
        "kind": "rules",
        "tool": {"version": __version__},
        "rules": [_row(item) for item in rules],
        "signatures": [vars(item) for item in known],
        "bugs": [vars(item) for item in bugs],
    }
    return json.dumps(document, indent=2) + "\n"


def _complain(name: str, known: Sequence[str]) -> None:
    import difflib

    from postmortem.render.safe import line

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    near += [other for other in known if name in other and other not in near][:3]
    what = f"there is no rule {line(name)!r}"
    print(f"postmortem: {what}", file=sys.stderr)
    hint = f"did you mean {', '.join(near)}?" if near else "postmortem rules lists all"
    print(f"hint: {hint}", file=sys.stderr)
