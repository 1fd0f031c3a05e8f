"""A card as annotations of GitHub Actions: workflow commands, which a step prints.

Texts of the evidence are escaped as GitHub asks for it, so that none can begin a command of its
own.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from postmortem.render.safe import line
from postmortem.report.card import Card, Place
from postmortem.report.model import Report

_MOST_PROBLEMS = 5


def render(report: Report, card: Card, out: TextIO, root: Path) -> None:
    """Write an error on the line of the failure, or a notice; what was not read is a warning.

    `root` is the folder of the repository: GitHub shows lines of its files alone.
    """
    kind = "error" if report.failed else "notice"
    own = next((at for at in (_at(one, root) for one in card.places) if at), {})
    words = [card.why, *(f"next: {step}" for step in card.steps)]
    _write(out, kind, {**own, "title": card.headline}, "\n".join(filter(None, words)))
    for problem in report.problems[:_MOST_PROBLEMS]:
        _write(out, "warning", {"title": "postmortem"}, f"{problem.where}: {problem.what}")


def _at(place: Place, root: Path) -> dict[str, str]:
    """Return file and line of a place, where the file is one of the repository."""
    if place.file is None or place.line is None:
        return {}
    path = Path(os.path.normpath(root / place.file))
    if not path.is_relative_to(root):
        return {}
    return {"file": str(path.relative_to(root)), "line": str(place.line)}


def _write(out: TextIO, kind: str, properties: Mapping[str, str], text: str) -> None:
    said = "\n".join(line(row) for row in text.splitlines()) or line(properties["title"])
    named = ",".join(f"{name}={_property(line(value))}" for name, value in properties.items())
    out.write(f"::{kind} {named}::{_data(said)}\n")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
