"""Deadlocks of Python locks in real cores of every interpreter here, and their look-alikes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.commands import run_here
from live.conftest import CrashedProcess
from live.test_corpus_cores import explained
from live.test_python_frames import interpreters

pytestmark = pytest.mark.cores
PROGRAMS = Path(__file__).parents[1] / "programs"
PROGRAM = PROGRAMS / "python_deadlock.py"
Crash = Callable[..., CrashedProcess]


@pytest.fixture(
    params=[p for p in interpreters() if "3.14" not in p],
    ids=lambda path: Path(path).parents[1].name,
)
def python(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def report_of(crash: Crash, python: str, kind: str) -> dict[str, Any]:
    """Return the report, made with gdb for one kind of each interpreter: locks are not its part."""
    engine = "auto" if kind == "rlock" else "native"
    return explained(crash([python, PROGRAM, kind]).core, engine)[0]


def waits(report: dict[str, Any]) -> dict[str, str | None]:
    """Return who is said to hold what each thread waits for, by names."""
    names = {t["tid"]: t["python_name"] for t in report["threads"]}
    return {
        name: names.get(t["waits_for"]["holder"]) if t["waits_for"] else "no wait"
        for t in report["threads"]
        if (name := t["python_name"]) is not None and name != "MainThread"
    }


def stuck(report: dict[str, Any]) -> list[str]:
    """Return how sure it is that its threads wait for each other."""
    return [row["confidence"] for row in report["diagnoses"] if row["id"] == "deadlock"]


@pytest.mark.parametrize(
    ("kind", "edges"),
    [
        ("abba", {"taker0": "taker1", "taker1": "taker0"}),
        ("rlock", {"taker0": "taker1", "taker1": "taker0"}),
        ("three", {"taker0": "taker1", "taker1": "taker2", "taker2": "taker0"}),
        ("twice", {"outer": "outer"}),
        ("acquired", {"taker0": "taker1", "taker1": "taker0"}),
        ("join", {"joiner": "worker", "worker": "joiner"}),
    ],
)
def test_circle(crash: Crash, python: str, kind: str, edges: dict[str, str]) -> None:
    report = report_of(crash, python, kind)
    assert waits(report) == edges
    best = report["diagnoses"][0]
    # an RLock names its owner, and so does what join() waits for; a Lock does not
    sure = "certain" if kind in ("rlock", "acquired", "join") else "likely"
    assert (best["id"], best["confidence"]) == ("deadlock", sure)
    assert report["signal"]["name"] == "SIGABRT"
    assert all(name in best["cause"] for name in edges)
    told = best["cause"] + str(best["evidence"])  # a `with` block tells where the lock was taken
    assert "python_deadlock.py:" in (told if kind == "acquired" else best["cause"])


@pytest.mark.parametrize("kind", ["released", "condition", "plain"])
def test_no_holder_is_made_up(crash: Crash, python: str, kind: str) -> None:
    report = report_of(crash, python, kind)
    assert set(waits(report).values()) == {None}
    assert {t["waits_for"]["confidence"] for t in report["threads"]} == {None}
    assert stuck(report) == ["likely"]  # each waits for what another one has to do


def test_what_is_built_of_locks_is_named(crash: Crash, python: str) -> None:
    report = report_of(crash, python, "waits")
    found = {t["python_name"]: t["waits_for"] for t in report["threads"]}
    found.pop("MainThread")
    assert {name: row["kind"] for name, row in found.items()} == {
        "waiting_condition": "condition",
        "waiting_for": "condition",
        "waiting_event": "event",
        "waiting_semaphore": "semaphore",
        "waiting_barrier": "barrier",
        "waiting_get": "queue",
        "waiting_put": "queue",
        "waiting_done": "queue",
        "waiting_future": "future",
    }
    assert len({row["what"] for row in found.values()}) == 8  # of a queue they wait for three
    assert {t["waits_for"]["holder"] for t in report["threads"]} == {None}
    assert stuck(report) == ["possible"]


def test_a_chain_of_waits_is_told_to_its_end(crash: Crash, python: str) -> None:
    process = crash([python, PROGRAM, "chain"])
    report = explained(process.core)[0]
    assert waits(report) == {"reader": "no wait", "between": "reader", "waiter": "between"}
    assert "deadlock" not in [d["id"] for d in report["diagnoses"]]
    text = run_here("core", "-v", process.core, "--engine", "native").stdout
    told = " ".join(text.partition("\nlocks\n")[2].partition("\n\n")[0].split())
    tids = {t["python_name"]: t["tid"] for t in report["threads"]}
    assert f'{tids["waiter"]} "waiter" waits' in told
    assert f'{tids["between"]} "between" waits' in told
    assert f'{tids["reader"]} "reader" is in' in told


def test_threads_that_ask_for_the_gil_name_its_holder(crash: Crash, python: str) -> None:
    report = explained(crash([python, PROGRAMS / "python_gil.py"]).core)[0]
    others = [t for t in report["threads"] if not t["crashed"]]
    waits = [t["waits_for"] for t in others if t["waits_for"] is not None]
    assert {(wait["kind"], wait["holder"]) for wait in waits} == {("gil", report["crashed_thread"])}
    # a stripped interpreter has no name for the function that takes it, between two waits
    asking = [t for t in others if "take_gil" in [f["function"] for f in t["frames"]]]
    assert all(thread["waits_for"] is not None for thread in asking)
    assert "deadlock" not in [d["id"] for d in report["diagnoses"]]


@pytest.mark.cxx
def test_a_read_write_lock_names_its_writer_and_no_reader(
    crash: Crash, compiled: Callable[..., Path]
) -> None:
    program = compiled("shared_locks.cpp", "-pthread", "-g")
    for kind in ("writer", "readers"):
        report = explained(crash([program, kind]).core)[0]
        # in the order in which they were started; a kernel's core has no names of threads
        main, holder, *wanting = sorted(report["threads"], key=lambda thread: thread["tid"])
        assert main["crashed"]
        named = {"writer": holder["tid"], "readers": None}[kind]
        found = [(t["waits_for"]["kind"], t["waits_for"]["holder"]) for t in wanting]
        assert found == [("rwlock", named)] * 2, kind
