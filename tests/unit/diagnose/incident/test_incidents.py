"""Every recorded incident: who is to blame, what the verdict says, and what is of another job."""

import json
from pathlib import Path
from typing import Any

import pytest
from corpus.incidents.score import HERE, faults, unpack

from builders.commands import run_here

TRUTHS: dict[str, dict[str, Any]] = json.loads((HERE / "truth.json").read_text())


@pytest.mark.parametrize("name", TRUTHS)
def test_incident(name: str, tmp_path: Path) -> None:
    folder = unpack(name, TRUTHS[name], tmp_path)
    done = run_here("triage", folder, "--json")
    found = json.loads(done.stdout)
    assert list(faults(TRUTHS[name], found, done.returncode)) == [], found["verdict"]
