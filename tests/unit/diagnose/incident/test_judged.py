"""Reports of several kinds become one incident: processes are joined by their numbers."""

from typing import Any

import pytest

from builders.incident import judge
from postmortem.diagnose.incident.events import EventType
from postmortem.report.model import Confidence


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
    assert set(judged.apart) == (set() if joined else {1})


def test_a_child_is_its_ranks_and_explains_the_error_that_names_its_signal() -> None:
    said = "CalledProcessError: 'java' died with <Signals.SIGABRT: 6>."
    judged = judge([logs("1", 1, said, pids=own(10, 11)), core(99, 11, "SIGABRT", rank=1)])
    (root,) = judged.incident.roots
    event = judged.incident.events[root]
    assert (event.source, event.ranks, event.role) == ("core", (1,), "child java")


def test_a_child_of_a_rank_that_did_not_fail_is_no_root() -> None:
    judged = judge([logs("1", 1, "KeyError: 'lr'", pids=own(10, 11)), core(99, 10, "SIGSEGV")])
    assert [judged.incident.events[root].source for root in judged.incident.roots] == ["logs"]


def calm(*kernel: dict[str, Any]) -> dict[str, Any]:
    told = {"first_failure": None, "decided_by": "nothing", "outcome": "healthy"}
    return {"kind": "logs", "diagnoses": [], **told, "kernel_events": [*kernel]}


def segfault(pid: int) -> dict[str, Any]:
    place = {"file": "kern.log", "line": 1, "host": None, "text": f"python[{pid}]: segfault at 40"}
    joined = {"joined_by": "host", "ranks": [], "process": "python", "fault": "program"}
    return {"kind": "crash", "pid": pid, "signal": "SIGSEGV", "what": "segfault", **place, **joined}


def recording(*pids: int, signal: str | None = None, failed: bool = False) -> dict[str, Any]:
    def end(pid: int) -> dict[str, Any]:
        how = signal if pid == pids[-1] else None
        return {"code": None if how else 0, "signal": how}

    about = {"pid": pids[0], "errno": "ENOSPC", "path": "/tmp/profile"}
    found = {"id": "disk_full", "role": "root", "title": "no space left", "about": about}
    told = {"confidence": "likely", "cause": "", "next_steps": [], "evidence": []}
    base = {"ppid": None, "thread_of": None, "recorded": True, "rank": None}
    return {
        "kind": "strace",
        "processes": [{**base, "pid": pid, "exit": end(pid)} for pid in pids],
        "diagnoses": [{**found, **told}] if failed else [],
    }


@pytest.mark.parametrize(("lines", "roots"), [(0, 0), (3, 1)])
def test_what_the_kernel_says_alone_and_ended_nobody_is_no_failure(lines: int, roots: int) -> None:
    blocked = {**segfault(99), "kind": "blocked", "signal": None, "what": "blocked"}
    assert len(judge([{**calm(blocked), "lines": lines}]).incident.roots) == roots


@pytest.mark.parametrize(
    ("documents", "roots"),
    [
        ([calm(segfault(99)), recording(10, 11)], 0),
        ([calm(segfault(11)), recording(10, 11)], 1),
        ([calm(segfault(99)), recording(10, 11, signal="SIGSEGV")], 1),
        ([calm(segfault(99))], 1),
        ([{**calm(segfault(99)), "done": True}], 0),
    ],
    ids=[
        "of nobody",
        "of the job",
        "counted otherwise in a container",
        "nothing was recorded",
        "the job came to its end",
    ],
)
def test_a_segfault_of_a_process_that_no_recording_has_is_of_another_job(
    documents: list[dict[str, Any]], roots: int
) -> None:
    assert len(judge(documents).incident.roots) == roots


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSEGV"])
def test_a_crash_that_no_rank_is_known_of_is_no_second_culprit(signal: str) -> None:
    lost = {"rank": 0, "label": "0", "why": "its connection closed"}
    exits = [{"rank": 3, "signal": signal, "memory": False}]
    end = {"exits": exits, "decided_by": "crash", "victims": [lost]}
    killed = logs("3", 3, signal, kernel_events=[segfault(99)], **end)
    judged = judge([killed])
    assert [judged.incident.events[i].ranks for i in judged.incident.roots] == [(3,)]


@pytest.mark.parametrize(("signal", "roots"), [(None, 0), ("SIGTERM", 1)])
def test_a_call_that_its_process_survived_is_no_root_beside_calm_logs(
    signal: str | None, roots: int
) -> None:
    judged = judge([calm(), recording(10, signal=signal, failed=True)])
    assert len(judged.incident.roots) == roots


@pytest.mark.parametrize(("late", "foreign"), [(0, {1}), (1, set())], ids=["known", "unknown"])
def test_a_recording_of_other_processes_may_be_of_ranks_whose_processes_nobody_names(
    late: int, foreign: set[int]
) -> None:
    victims = [{"rank": late, "label": f"{late}", "why": "its connection closed"}]
    told = logs("0", 0, "KeyError", pids=own(70), victims=victims)
    assert set(judge([told, recording(10, 11, signal="SIGKILL", failed=True)]).foreign) == foreign


@pytest.mark.parametrize(
    ("file", "kind", "timed", "ranks"),
    [
        ("/job/vocab.py", "python lock", False, [(0,)]),
        ("/usr/lib/python3.11/queue.py", "python lock", False, []),
        ("/job/vocab.py", "python lock", True, []),
        ("/job/vocab.py", "condition", False, []),
    ],
    ids=["own lock", "of a library", "for a time", "of a collective"],
)
def test_a_rank_that_waits_for_a_lock_of_its_program_in_a_snapshot_may_be_stuck(
    file: str, kind: str, timed: bool, ranks: list[tuple[int, ...]]
) -> None:
    frame = {"kind": "python", "function": "encode", "file": file, "line": 9, "module": None}
    waits = {"what": "a Python lock", "kind": kind, "timed": timed}
    threads = [{"tid": 7, "frames": [frame], "waits_for": waits}]
    snapshot = {**core(7, 1, "", rank=0), "signal": None, "threads": threads, "main_thread": 7}
    incident = judge([calm(), snapshot]).incident
    assert [incident.events[root].ranks for root in incident.roots] == ranks
    assert all(one.confidence is Confidence.POSSIBLE for one in incident.events)


@pytest.mark.parametrize(
    ("signal", "rule", "file", "module", "ranks"),
    [
        ("SIGQUIT", "killed_by_signal", "/job/vocab.py", "libc.so.6", [(0,)]),
        ("SIGBUS", "killed_by_signal", "/job/vocab.py", "libc.so.6", []),
        ("SIGABRT", "nccl_watchdog_abort", "/job/vocab.py", "libc.so.6", []),
        ("SIGABRT", "killed_by_signal", "/job/vocab.py", "libcuda.so.1", []),
        ("SIGABRT", "killed_by_signal", "/usr/lib/python3.11/queue.py", "libc.so.6", []),
    ],
    ids=["for its core", "another signal", "by its watchdog", "waits for its device", "library"],
)
def test_who_was_killed_for_its_core_in_its_own_code_may_be_stuck(
    signal: str, rule: str, file: str, module: str, ranks: list[tuple[int, ...]]
) -> None:
    native = {"kind": "native", "function": "recv", "module": module}
    frame = {"kind": "python", "function": "push", "file": file, "line": 9, "module": None}
    threads = [{"tid": 7, "frames": [native, frame], "waits_for": None}]
    found = {"id": rule, "role": "cascade", "title": "killed", "confidence": "certain"}
    told = {"cause": "", "next_steps": [], "evidence": []}
    killed = {**core(7, 1, signal, rank=0), "threads": threads, "main_thread": 7}
    incident = judge([{**killed, "diagnoses": [{**found, **told}]}]).incident
    assert [incident.events[root].ranks for root in incident.roots] == ranks


def lost_gpu(xid: int | None, device: str) -> dict[str, Any]:
    place = {"file": "kern.log", "line": 1, "host": None, "text": "fallen off the bus", "pid": None}
    joined = {"joined_by": "gpu", "ranks": [1], "process": None, "fault": "hardware"}
    more = {"kind": "gpu", "signal": None, "what": "fallen off the bus", "xid": xid}
    return {**place, **joined, **more, "device": device}


@pytest.mark.parametrize(("device", "events"), [("0000:3b:00.0", 2), ("0000:86:00.0", 3)])
def test_what_the_driver_says_besides_an_xid_is_of_that(device: str, events: int) -> None:
    kernel = [lost_gpu(79, "0000:3b:00"), lost_gpu(None, device)]
    judged = judge([{**logs("1", 1, "RuntimeError: CUDA error"), "kernel_events": kernel}])
    assert len(judged.incident.events) == events


@pytest.mark.parametrize(
    ("decided", "roots"), [("own exception", ["raised"]), ("kernel log", ["device lost"])]
)
def test_a_gpus_page_fault_is_half_of_the_programs_error(decided: str, roots: list[str]) -> None:
    fault = {**lost_gpu(31, "0000:3b:00"), "fault": "program", "ranks": [0, 1]}
    said = {**logs("1", 1, "CUDA error: an illegal memory access"), "decided_by": decided}
    judged = judge([{**said, "kernel_events": [fault]}])
    assert sorted(judged.incident.events[i].type for i in judged.incident.roots) == roots


@pytest.mark.parametrize(("host", "events"), [("n1", 2), ("n2", 3)])
def test_what_breaks_in_one_host_is_one_fault(host: str, events: int) -> None:
    broken = {**lost_gpu(None, "0x31aa12"), "kind": "machine", "joined_by": "host"}
    kernel = [{**broken, "device": None, "host": "n1"}, {**broken, "host": host}]
    judged = judge([{**logs("1", 1, "killed by SIGBUS"), "kernel_events": kernel}])
    assert len(judged.incident.events) == events


def test_all_that_failed_by_themselves_are_roots_and_each_has_its_call() -> None:
    row = {"label": "2", "rank": 2, "host": None, "file": "2.log", "line": 4}
    also = [{**row, "why": "RuntimeError: iostream error", "raised": True}]
    first = logs("1", 1, "KeyError: 'lr'", pids=own(10, 11, 12), also_failed=also)
    about = {"pid": 12, "errno": "ENOSPC", "path": "/ckpt/step_3.pt"}
    refused = {"id": "disk_full", "role": "root", "title": "no space left", "about": about}
    told = {"confidence": "likely", "cause": "", "next_steps": [], "evidence": []}
    process = {"ppid": None, "thread_of": None, "recorded": True, "rank": None}
    ended = {**process, "pid": 12, "exit": {"code": 1, "signal": None}}
    strace = {"kind": "strace", "processes": [ended], "diagnoses": [{**refused, **told}]}
    judged = judge([first, strace])
    roots = [judged.incident.events[root] for root in judged.incident.roots]
    assert [(one.source, one.type) for one in roots] == [
        ("strace", EventType.STORAGE),
        ("logs", EventType.RAISED),
    ]


@pytest.mark.parametrize(("second", "roots"), [(7, 1), (8, 2)])
def test_who_was_looked_at_twice_is_one_root(second: int, roots: int) -> None:
    judged = judge([core(7, 1, "SIGSEGV", rank=0), core(second, 1, "SIGSEGV", rank=second - 7)])
    assert len(judged.incident.roots) == roots


@pytest.mark.parametrize(
    ("syscall", "outcome", "roots"),
    [("openat", "failed", [("stuck", (1,))]), ("read", "failed", []), ("flock", "unknown", [])],
)
def test_who_was_ended_as_he_waited_for_a_file_held_up_the_others(
    syscall: str, outcome: str, roots: list[tuple[str, tuple[int, ...]]]
) -> None:
    call = {"signal": "SIGTERM", "line": 9, "syscall": syscall, "target": "/tmp/tide.fifo"}
    ended = {"signal": "SIGTERM", "code": None}
    rows = [
        {"pid": pid, "recorded": True, "thread_of": None, "exit": ended, "interruptions": calls}
        for pid, calls in ((10, []), (11, [call]))
    ]
    recording = {
        "kind": "strace",
        "outcome": outcome,
        "diagnoses": [],
        "inputs": [{"path": "tr.10"}, {"path": "tr.11"}],
        "processes": rows,
    }
    stopped = {**logs("1", 1, "", pids=own(10, 11)), "first_failure": None, "diagnoses": []}
    judged = judge([stopped, recording])
    found = [judged.incident.events[root] for root in judged.incident.roots]
    assert [(str(one.type), one.ranks) for one in found] == roots
    assert all(one.evidence[0].where == "tr.11:9" for one in found)


@pytest.mark.parametrize(
    ("host", "victims", "roots"),
    [
        ("n7", (0, 1), [(2, 3)]),
        ("n7.example.org", (0, 1), [(2, 3)]),
        ("n9", (0, 1), []),
        ("n7", (0, 1, 2, 3), []),
    ],
    ids=["its own", "by its long name", "another job's", "all ranks outlived it"],
)
def test_a_node_that_is_down_is_to_blame_where_silent_ranks_ran(
    host: str, victims: tuple[int, ...], roots: list[tuple[int, ...]]
) -> None:
    ran = [
        {"rank": rank, "pid": 70 + rank, "own": True, "host": f"n{6 + rank // 2}"}
        for rank in range(4)
    ]
    lost = [{"rank": rank, "label": str(rank), "why": "timed out"} for rank in victims]
    said = {"kind": "logs", "outcome": "failed", "diagnoses": [], "pids": ran, "victims": lost}
    down = {
        "subject": f"node {host}",
        "name": "node_down",
        "value": 1,
        "command": "sinfo.txt",
        "detail": "",
    }
    list_of_nodes = {
        "kind": "doctor",
        "checks": [],
        "changes": [],
        "snapshot": {"host": "", "readings": [down]},
    }
    found = judge([said, list_of_nodes])
    events = [found.incident.events[root] for root in found.incident.roots]
    assert [one.ranks for one in events if one.type is EventType.NODE_DOWN] == roots
