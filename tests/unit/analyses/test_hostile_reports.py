"""Reports of ours as evidence that somebody has changed: each costs itself, and never the rest."""

import copy
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions
from postmortem.analyses.ranklogs import analyse as read_logs
from postmortem.analyses.triage import TriageOptions, analyse
from postmortem.errors import EvidenceError
from postmortem.readers.own_reports import read_own_report
from postmortem.render.json import render

_JUNK: tuple[Any, ...] = (
    *(None, True, 0, -1, 1e308, 10**30, "", "\x1b[31m\x07", "\ud800", [], {}),
    *([1], ["a"], [[]], [None], {"a": 1}),
)


def _logs_report(folder: Path) -> dict[str, Any]:
    log = folder / "job.log"
    log.write_text(
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "train.py", line 7, in <module>\n[rank0]: ValueError: odd batch\n'
    )
    out = io.StringIO()
    render(read_logs([str(log)], RankLogOptions()), out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    rows = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, one in rows:
        found.append((*at, key))
        if isinstance(one, dict | list):
            found += _places(one, (*at, key))
    return found


def test_whatever_stands_in_a_report_is_evidence_or_no_report(tmp_path: Path) -> None:
    whole = _logs_report(tmp_path)
    places, chance = _places(whole), random.Random(13)
    path = tmp_path / "report.json"
    told = 0
    for place in places:
        document = copy.deepcopy(whole)
        inner = document
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = chance.choice(_JUNK)
        path.write_text(json.dumps(document, indent=1))
        try:
            told += bool(analyse([str(path)], TriageOptions()).verdict)
        except EvidenceError:
            continue
    assert 0 < told < len(places)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("diagnoses", 0, "title"), 7),
        (("problems",), 7),
        (("verdict",), None),
        (("diagnoses", 0, "evidence"), [{}]),
    ],
)
def test_what_is_wrong_with_a_report_is_told_with_its_place(
    place: tuple[Any, ...], value: object, tmp_path: Path
) -> None:
    document = inner = _logs_report(tmp_path)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document, indent=1))
    found = read_own_report(str(path))
    assert isinstance(found, EvidenceError)
    assert str(place[-1]) in found.what


def test_what_an_older_version_did_not_write_is_nothing(tmp_path: Path) -> None:
    document = _logs_report(tmp_path)
    del document["also_failed"], document["first_failure"]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document, indent=1))
    found = read_own_report(str(path))
    assert not isinstance(found, EvidenceError)
    assert (found["also_failed"], found["first_failure"]) == ([], None)


def test_nesting_without_end_is_told(tmp_path: Path) -> None:
    document = _logs_report(tmp_path)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document, indent=1)[:-2] + ', "x": ' + "[" * 100_000 + "}")
    assert isinstance(read_own_report(str(path)), EvidenceError)
