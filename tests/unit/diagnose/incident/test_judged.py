"""Reports of several kinds become one incident: processes are joined by their numbers."""

from typing import Any

import pytest

from postmortem.diagnose.incident.incident import judge


def logs(label: str, rank: int | None, what: str, **more: Any) -> dict[str, Any]:
    found = {"label": label, "rank": rank, "host": None, "what": what, "confidence": "certain"}
    place = {"file": f"{label}.log", "line": 3, "ranks": [] if rank is None else [rank]}
    return {
        "kind": "logs",
        "outcome": "failed",
        "diagnoses": [{"next_steps": [], "cause": what, "evidence": []}],
        "first_failure": {**found, **place},
        "decided_by": "crash" if rank is None else "own exception",
        **more,
    }


def core(pid: int, ppid: int, signal: str, rank: int | None = None) -> dict[str, Any]:
    process = {"pid": pid, "ppid": ppid, "rank": rank, "hostname": None, "executable": "/bin/java"}
    return {
        "kind": "core",
        "verdict": f"{signal} in put",
        "diagnoses": [],
        "inputs": [{"path": "core"}],
        "process": process,
        "signal": {"name": signal},
    }


def own(*pids: int) -> list[dict[str, Any]]:
    return [{"rank": rank, "pid": pid, "host": None, "own": True} for rank, pid in enumerate(pids)]


@pytest.mark.parametrize(("pid", "joined"), [(4711, True), (4712, False)])
def test_the_report_of_a_jvm_and_its_core_are_one_end(pid: int, joined: bool) -> None:
    judged = judge([logs(f"hs_err_pid{pid}.log", None, "SIGSEGV in put"), core(4711, 1, "SIGABRT")])
    roots = [judged.incident.events[root].source for root in judged.incident.roots]
    assert roots == (["core"] if joined else ["logs"])
    assert judged.apart == (() if joined else (1,))


def test_a_child_is_its_ranks_and_explains_the_error_that_names_its_signal() -> None:
    said = "CalledProcessError: 'java' died with <Signals.SIGABRT: 6>."
    judged = judge([logs("1", 1, said, pids=own(10, 11)), core(99, 11, "SIGABRT", rank=1)])
    (root,) = judged.incident.roots
    event = judged.incident.events[root]
    assert (event.source, event.ranks, event.role) == ("core", (1,), "child java")


def test_a_child_of_a_rank_that_did_not_fail_is_no_root() -> None:
    judged = judge([logs("1", 1, "KeyError: 'lr'", pids=own(10, 11)), core(99, 10, "SIGSEGV")])
    assert [judged.incident.events[root].source for root in judged.incident.roots] == ["logs"]
