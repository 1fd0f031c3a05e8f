"""Every recorded incident: who is to blame, what the verdict says, and what is of another job."""

import json
from pathlib import Path
from typing import Any

import pytest
from corpus.incidents.score import HERE, faults, unpack

from builders.commands import run_here
from postmortem.facts.inventory import Reading, Result
from postmortem.readers import side_by_side
from postmortem.readers.own_reports import own_report

TRUTHS: dict[str, dict[str, Any]] = json.loads((HERE / "truth.json").read_text())


def read_here(reading: Reading) -> Result:
    """Read one kind of evidence as its child does, which tests of `triage` start."""
    done = run_here(*reading.words, "--json")
    if done.returncode in (0, 1):
        return Result(reading, own_report(done.stdout.encode(), reading.paths[0]), None)
    return Result(reading, None, side_by_side._complaint(done.stderr.encode()))


@pytest.mark.parametrize("name", TRUTHS)
def test_incident(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "_read", read_here)
    monkeypatch.setattr(side_by_side, "_AT_ONCE", 1)
    folder = unpack(name, TRUTHS[name], tmp_path)
    done = run_here("triage", folder, "--json")
    found = json.loads(done.stdout)
    assert list(faults(TRUTHS[name], found, done.returncode)) == [], found["verdict"]
