"""``postmortem rules``: lists the diagnosis rules, or explains one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from postmortem.cli.output import page_width, write_text

if TYPE_CHECKING:
    from postmortem.rules.rule import Rule

SUMMARY = "list the diagnosis rules, or explain one of them"

EXAMPLES = """\
example:
  postmortem rules nccl_watchdog
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="the rule to explain (default: list all)"
    )
    parser.add_argument("--json", action="store_true", help="write JSON (default: text)")


def run(args: argparse.Namespace) -> int:
    """List the rules or explain one; an ID that does not exist is a usage error."""
    from postmortem.rules import rule

    rules = (*rule.load(), *rule.load("scan"), *rule.load("strace"), *rule.load("logs"))
    if args.id is not None:
        chosen = [item for item in rules if item.id == args.id]
        if not chosen:
            _complain(args.id, [item.id for item in rules])
            return 2
        rules = tuple(chosen)
    if args.json:
        write_text(_json(rules))
    elif args.id is not None:
        write_text(_explained(rules[0]))
    else:
        write_text(_listed(rules, page_width(None, sys.stdout)))
    return 0


def _listed(rules: Sequence[Rule], width: int) -> str:
    from postmortem.render.wrapping import wrapped

    lines: list[str] = []
    family = None
    column = max((len(item.id) for item in rules), default=0) + 2
    for item in sorted(rules, key=lambda r: (r.family, r.id)):
        if item.family != family:
            family = item.family
            lines += ([""] if lines else []) + [family]
        start = f"  {item.id:<{column}}{item.role.value:<14}"
        rows = wrapped(_first_line(item), max(width - len(start), 24))
        lines.append((start + rows[0]).rstrip())
        lines += [" " * len(start) + row for row in rows[1:]]
    count = "1 rule" if len(rules) == 1 else f"{len(rules)} rules"
    return "\n".join([*lines, "", f"{count}; postmortem rules ID explains one", ""])


def _explained(item: Rule) -> str:
    lines = [f"{item.id}   {item.family}, {item.role.value}", "", item.documentation]
    if item.references:
        lines += ["", "References", *(f"  {reference}" for reference in item.references)]
    return "\n".join([*lines, ""])


def _first_line(item: Rule) -> str:
    return (item.documentation.splitlines() or [""])[0]


def _json(rules: Sequence[Rule]) -> str:
    import json

    from postmortem._version import __version__

    document = {
        "schema": "postmortem/1",
        "kind": "rules",
        "tool": {"version": __version__},
        "rules": [
            {
                "id": item.id,
                "family": item.family,
                "role": item.role.value,
                "summary": _first_line(item),
                "documentation": item.documentation,
                "references": item.references,
            }
            for item in rules
        ],
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
