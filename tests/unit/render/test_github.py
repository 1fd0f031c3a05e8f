"""Annotations of GitHub Actions: where they stand, and that evidence cannot give commands."""

import io
import re
from pathlib import Path

import pytest

from postmortem.cli.main import main
from postmortem.facts.source import Problem
from postmortem.render.github import render
from postmortem.report.card import Card, Place
from postmortem.report.model import Report

COMMAND = re.compile(r"^::(error|warning|notice) ([^:]*)::(.*)$")


Row = tuple[str, dict[str, str], str]


def written(
    card: Card, root: Path, *, failed: bool = True, problems: tuple[Problem, ...] = ()
) -> list[Row]:
    out = io.StringIO()
    report = Report("core", (), card.headline, failed, (), (), {}, problems)
    render(report, card, out, root)
    rows = []
    for text in out.getvalue().splitlines():
        match = COMMAND.match(text)
        assert match is not None, text
        properties = dict(pair.split("=", 1) for pair in match[2].split(","))
        rows.append((match[1], properties, match[3]))
    return rows


def test_it_stands_on_the_line_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "job.py").write_text("x\n")
    places = (Place("strlen", "/lib/string.c", 3), Place("f", f"{tmp_path}/src/job.py", 7))
    ((kind, properties, text),) = written(
        Card("it died", True, places=places, why="because", steps=("look",)), tmp_path
    )
    assert (kind, properties) == ("error", {"file": "src/job.py", "line": "7", "title": "it died"})
    assert text == "because%0Anext: look"


def test_what_is_elsewhere_has_no_line(tmp_path: Path) -> None:
    places = (Place("f", "../../etc/passwd", 1), Place("g", None, None))
    ((_, properties, _),) = written(Card("it died", True, places=places), tmp_path)
    assert properties == {"title": "it died"}


def test_evidence_gives_no_commands(tmp_path: Path) -> None:
    evil = "100%\n::error file=x::y\r::set-output name=a::b, c: d"
    rows = written(
        Card(evil, False, why=evil), tmp_path, failed=False, problems=(Problem(evil, evil),)
    )
    assert [kind for kind, _, _ in rows] == ["notice", "warning"]


def test_a_command_writes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / "job.py").write_text("\n" * 9)
    (tmp_path / "log").write_text(
        'Traceback (most recent call last):\n  File "job.py", line 4, in <module>\n    f()\n'
        "ValueError: seven\n"
    )
    assert main(["logs", "log", "--github"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("::error file=job.py,line=4,title=ValueError%3A seven")
