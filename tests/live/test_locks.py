"""Deadlocks of Python locks in real cores of every interpreter here, and their look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from live.conftest import CrashedProcess
from live.test_corpus_cores import explained
from live.test_python_frames import interpreters

pytestmark = pytest.mark.cores
PROGRAM = Path(__file__).parents[1] / "programs" / "python_deadlock.py"
Crash = Callable[..., CrashedProcess]


@pytest.fixture(
    params=[p for p in interpreters() if "3.14" not in p],
    ids=lambda path: Path(path).parents[1].name,
)
def python(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def report_of(crash: Crash, python: str, kind: str) -> dict[str, Any]:
    return explained(crash([python, PROGRAM, kind]).core)[0]


def waits(report: dict[str, Any]) -> dict[str, str | None]:
    """Return who is said to hold what each thread waits for, by names."""
    names = {t["tid"]: t["python_name"] for t in report["threads"]}
    return {
        name: names.get(t["waits_for"]["holder"]) if t["waits_for"] else "no wait"
        for t in report["threads"]
        if (name := t["python_name"]) is not None and name != "MainThread"
    }


@pytest.mark.parametrize(
    ("kind", "edges"),
    [
        ("abba", {"taker0": "taker1", "taker1": "taker0"}),
        ("rlock", {"taker0": "taker1", "taker1": "taker0"}),
        ("three", {"taker0": "taker1", "taker1": "taker2", "taker2": "taker0"}),
        ("twice", {"outer": "outer"}),
    ],
)
def test_circle(crash: Crash, python: str, kind: str, edges: dict[str, str]) -> None:
    report = report_of(crash, python, kind)
    assert waits(report) == edges
    best = report["diagnoses"][0]
    assert (best["id"], best["confidence"]) == ("deadlock", "likely")
    assert report["verdict"].startswith("SIGABRT: deadlock: ")
    assert all(name in best["cause"] for name in edges)
    assert "python_deadlock.py:" in best["cause"]


@pytest.mark.parametrize("kind", ["released", "condition"])
def test_no_holder_is_made_up(crash: Crash, python: str, kind: str) -> None:
    report = report_of(crash, python, kind)
    assert set(waits(report).values()) == {None}
    assert "deadlock" not in [d["id"] for d in report["diagnoses"]]
