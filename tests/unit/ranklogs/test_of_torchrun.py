"""Jobs of torchrun and others: what a stop raised, who waits where, whose worker, who is missed."""

from pathlib import Path
from typing import Any

import pytest

from builders.ranklogs import raised_first, report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse

_AGENT = "W0102 03:04:05.{:06} 9 torch/distributed/elastic/"
_TOLD = _AGENT + "agent/server/api.py:753] Received {} death signal, shutting down workers\n"
_CLOSES = _AGENT + "multiprocessing/api.py:1028] Sending process {} closing signal SIGTERM\n"
_FAILED = (
    "E0102 03:04:06.000000 9 torch/distributed/elastic/multiprocessing/api.py:1002] "
    "failed (exitcode: 1) local_rank: {} (pid: 12) of binary: /usr/bin/python\n"
)
_WAITED = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 12000ms for recv operation"
_CLOSED = "RuntimeError: [pair.cc:537] Read error [10.0.0.7]:1438: Connection reset by peer"


def _raised(rank: int, error: str, where: str = "f(x)", file: str = "fit.py", line: int = 9) -> str:
    rows = (
        "Traceback (most recent call last):",
        f'  File "{file}", line {line}, in step',
        f"    {where}",
        error,
    )
    return "".join(f"[rank{rank}]: {row}\n" for row in rows)


@pytest.mark.parametrize(("below", "decided"), [(True, "stopped"), (False, "every rank")])
def test_what_is_raised_behind_a_signal_to_torchrun_is_because_of_it(
    tmp_path: Path, below: bool, decided: str
) -> None:
    errors = "".join(_raised(rank, "Preempted: at step 118") for rank in (0, 1))
    stop = _TOLD.format(0, 15) + _CLOSES.format(1, 11) + _CLOSES.format(2, 12)
    text = "step 118\n" + (stop + errors if below else errors + stop)
    assert report_of(tmp_path, text).body["decided_by"] == decided


def test_steps_that_come_again_behind_an_error_of_one_rank_begin_no_run(tmp_path: Path) -> None:
    clock = "2026-01-02 03:04:{:02} INFO step {}\n2026-01-02 03:04:{:02} INFO wrote part{}.pt\n"
    steps = [clock.format(n, n, n, n) for n in range(6)]
    text = "".join([*steps[:4], _raised(1, "OSError: pos 80832"), *steps[4:]])
    report = report_of(tmp_path, text + _raised(0, _CLOSED) + _FAILED.format(1))
    assert raised_first(report) == (1, "OSError: pos 80832")
    assert report.body["earlier"] == []


@pytest.mark.parametrize(
    ("site", "candidates"), [("dist.all_reduce(y)", [2, 3]), ("dist.barrier()", None)]
)
def test_who_was_elsewhere_than_all_whose_time_was_up_is_as_likely_as_the_silent_one(
    tmp_path: Path, site: str, candidates: list[int] | None
) -> None:
    late = [_raised(rank, _WAITED, "dist.barrier()", line=12) for rank in (0, 1)]
    other = _raised(3, _CLOSED, site, line=11 if candidates else 12)
    for rank, text in enumerate([*late, "started\n", other]):
        (tmp_path / f"rank{rank}.log").write_text(text)
    body: Any = analyse([str(tmp_path)], RankLogOptions(world_size=4)).body
    found = [one["rank"] for one in body["candidates"]] or None
    assert found == candidates


@pytest.mark.parametrize(
    ("file", "first"),
    [("/lib/torch/utils/data/dataloader.py", 1), ("/lib/multiprocessing/connection.py", None)],
)
def test_a_loader_that_lost_its_worker_lost_no_rank(
    tmp_path: Path, file: str, first: int | None
) -> None:
    error = "ConnectionResetError: [Errno 104] Connection reset by peer"
    report = report_of(tmp_path, _raised(1, error, file=file) + _raised(0, _CLOSED))
    found = raised_first(report)
    assert (found and found[0]) == first


_MESH = (
    "Traceback (most recent call last):\n"
    '  File "/lib/torch/distributed/distributed_c10d.py", line 2169, in _new_process_group_helper\n'
    "    backend_class = ProcessGroupGloo(\n"
    "RuntimeError: Gloo connectFullMesh failed with [pair.cc:152] timed out connecting: SO_ERROR: "
    "Connection refused, remote=[127.0.0.1]:6031$1\n"
)


@pytest.mark.parametrize(
    ("first", "rule"),
    [(_raised(0, _CLOSED) + _raised(1, _CLOSED), "restart_met_leftovers"), (_MESH, None)],
)
def test_a_restart_that_cannot_join_met_what_the_first_attempt_had_left(
    tmp_path: Path, first: str, rule: str | None
) -> None:
    starts = "".join(f"attempt {{0}}, rank {rank} of 2\n" for rank in (0, 1))
    attempts = [starts.format(n) + text for n, text in enumerate((first, _MESH))]
    report = report_of(tmp_path, "".join(text + _FAILED.format(0) for text in attempts))
    assert report.body["earlier"] == []
    assert (report.diagnoses[0].id == "restart_met_leftovers") == (rule is not None)


@pytest.mark.parametrize("end", ["Training complete.", "window 4"])
def test_what_pytorch_logged_of_a_rank_is_outlived_by_a_good_end(tmp_path: Path, end: str) -> None:
    logged = "[rank0]:[E102 03:04:05.235172068 ProcessGroupGloo.cpp:67] [Rank 0]: Rank 1 failed\n"
    windows = "".join(f"2026-01-02 03:04:0{n} INFO window {n} written\n" for n in range(4))
    report = report_of(tmp_path, f"{windows}{logged}2026-01-02 03:04:09 INFO {end}\n")
    assert report.failed == (end == "window 4")


def test_who_left_mpi_without_a_word_is_told(tmp_path: Path) -> None:
    said = "mpirun has exited due to process rank 2 with PID 0 on\nnode n7 exiting improperly.\n"
    report = report_of(tmp_path, "sweep 3\n" * 8 + "-" * 74 + "\n" + said)
    body: Any = report.body
    assert body["first_failure"]["rank"] == 2


@pytest.mark.parametrize(
    ("line", "cited"), [("ERROR watchdog: 97 C, leaving", 9), ("INFO step 9", None)]
)
def test_what_a_rank_said_before_it_left_stands_above_those_who_lost_it(
    tmp_path: Path, line: str, cited: int | None
) -> None:
    steps = "".join(f"2026-01-02 03:04:0{n} INFO step {n}\n" for n in range(1, 9))
    other = "2026-01-02 03:04:09 INFO step 8\n"
    text = f"{steps}2026-01-02 03:04:09 {line}\n{other}{_raised(0, _CLOSED)}"
    left = _FAILED.format(1).replace("exitcode: 1", "exitcode: 75")
    report = report_of(tmp_path, text + _CLOSES.format(1, 11) + left)
    places = [one.where for one in report.diagnoses[0].evidence]
    assert ("job.log:9" in places) == (cited is not None)


@pytest.mark.parametrize(
    ("killed", "why"), [(("Killed",), "crash"), (("Killed", "Killed"), "named")]
)
def test_the_task_that_jax_misses_is_the_one_process_that_was_killed(
    tmp_path: Path, killed: tuple[str, ...], why: str
) -> None:
    missed = "INTERNAL: UNAVAILABLE: Task 2 heartbeat timeout. This indicates that it crashed\n"
    lines = [f"run.sh: line 2:  {70 + n} {word}   python t.py\n" for n, word in enumerate(killed)]
    report = report_of(tmp_path, "step 3\n" * 4 + missed + "".join(lines))
    assert raised_first(report) is not None
    assert (report.body["decided_by"] == "crash") == (why == "crash")


@pytest.mark.parametrize(("above", "decided"), [(True, "undecided"), (False, "crash")])
def test_who_aborts_behind_a_time_out_of_another_aborts_for_that(
    tmp_path: Path, above: bool, decided: str
) -> None:
    aborted = _FAILED.replace("exitcode: 1", "exitcode: -6").format(1)
    late = _raised(0, _WAITED)
    report = report_of(tmp_path, late + aborted if above else aborted + late)
    assert report.body["decided_by"] == decided
