"""The commands that the site shows are commands that there are, and each has what it writes."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from postmortem.cli import main
from postmortem.cli.commands import COMMANDS

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"<!-- run: (?P<command>[^\n]+) -->\n```text\n(?P<said>.*?)```", re.DOTALL)
PAGES = sorted([*DOCS.glob("cases/*.md"), *DOCS.glob("tutorial/*.md")])


def shown(page: Path) -> Iterator[tuple[str, str]]:
    """Yield (command line, what it wrote)."""
    for found in BLOCK.finditer(page.read_text()):
        yield found["command"], found["said"]


def calls(line: str) -> Iterator[list[str]]:
    """Yield the words behind each ``postmortem`` of a command line of a shell."""
    without_redirections = re.sub(r"\d?>(?:&\d|[^\s;|]+)", "", line.replace("$!", "4711"))
    for part in re.split(r"[;&|]+", without_redirections):
        found = re.match(r"\s*postmortem\s+(?P<words>.+)", part)
        if found is not None:
            yield shlex.split(found["words"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_what_is_shown_can_be_typed(page: Path) -> None:
    parser, _ = main._parser(COMMANDS)
    for line, said in shown(page):
        assert said.startswith(f"$ {line}\n"), "run docs/cases/make.py"
        assert len(said.splitlines()) > 1, line
        for words in calls(line):
            parser.parse_args(words if words[0] in COMMANDS else ["triage", *words])


def test_the_tutorial_has_every_command() -> None:
    text = "".join(page.read_text() for page in DOCS.glob("tutorial/*.md"))
    missing = [name for name in COMMANDS if f"postmortem {name}" not in text]
    assert missing == []
    run = "\n".join(line for page in PAGES for line, _ in shown(page))
    silent = {name for name in COMMANDS if not re.search(rf"postmortem {name}\b", run)}
    assert silent == {"triage"}, "these are not shown with what they write"  # it needs no name
