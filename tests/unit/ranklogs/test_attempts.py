"""Jobs that their launcher starts again: each attempt is decided, the last one counts."""

from pathlib import Path
from typing import Any

import pytest

from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.diagnose.ranks.deciding.attempts import decide_attempts
from postmortem.readers.ranklogs.read import read_rank_logs
from postmortem.readers.ranklogs.sources import find_rank_logs
from postmortem.report.model import Report

API = "torch/distributed/elastic/multiprocessing/api.py"


def raised(rank: int, words: str) -> list[str]:
    return [
        f"[rank{rank}]: Traceback (most recent call last):",
        f'[rank{rank}]:   File "/job/train.py", line {10 + rank}, in step',
        f"[rank{rank}]:     {words[:5]}",
        f"[rank{rank}]: {words}",
    ]


def agent(local: int, pid: int, agent_pid: int = 900) -> str:
    head = f"E1121 17:08:48.797000 {agent_pid} {API}:1002] "
    return f"{head}failed (exitcode: 1) local_rank: {local} (pid: {pid}) of binary: /opt/python"


def summary(rank: int, pid: int) -> list[str]:
    return [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        "train.py FAILED",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-11-21_17:09:02",
        "  host      : node1",
        f"  rank      : {rank} (local_rank: {rank})",
        f"  exitcode  : 1 (pid: {pid})",
        "  error_file: <N/A>",
        "=" * 60,
    ]


def steps(rank: int, count: int = 3) -> list[str]:
    return [f"[rank{rank}]: step {i}" for i in range(count)]


def report_of(tmp_path: Path, lines: list[str], name: str = "job.out") -> tuple[Report, Any]:
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    report = analyse([str(tmp_path)], RankLogOptions())
    return report, report.body


def test_a_job_that_recovers_did_not_fail(tmp_path: Path) -> None:
    lines = [*steps(0), *steps(1), *raised(1, "ValueError: bad"), agent(1, 11)]
    report, body = report_of(tmp_path, [*lines, *steps(0, 9), *steps(1, 9)])
    assert not report.failed
    assert body["first_failure"] is None
    assert [row["ranks"] for row in body["attempts"]] == [[1], []]


def test_the_same_each_time(tmp_path: Path) -> None:
    one = [*steps(0), *raised(1, "ValueError: bad batch 17")]
    lines = [*one, agent(1, 11), *one, agent(1, 12), *one, agent(1, 13), *summary(1, 13)]
    report, body = report_of(tmp_path, lines)
    assert report.failed
    assert body["first_failure"]["ranks"] == [1]
    assert [(row["attempt"], row["ranks"]) for row in body["attempts"]] == [
        (n, [1]) for n in range(3)
    ]
    assert body["tracebacks"][0]["count"] == 3


def test_the_last_attempt_is_told_of(tmp_path: Path) -> None:
    lines = [*raised(1, "ValueError: bad"), agent(1, 11)]
    lines += [*steps(0), *raised(0, "KeyError: 'lr'"), agent(0, 12), *summary(0, 12)]
    _, body = report_of(tmp_path, lines)
    assert body["first_failure"]["ranks"] == [0]
    assert [(row["told"], row["ranks"]) for row in body["attempts"]] == [(False, [1]), (True, [0])]


def test_one_failure_and_the_summary_are_one_attempt(tmp_path: Path) -> None:
    _, body = report_of(
        tmp_path, [*steps(0), *raised(1, "ValueError: bad"), agent(1, 11), *summary(1, 11)]
    )
    assert len(body["attempts"]) == 1


def test_half_a_line_of_an_agent_above_is_no_attempt(tmp_path: Path) -> None:
    lines = ["why is there failed (exitcode: 1) local_rank", *raised(1, "ValueError: bad")]
    _, body = report_of(tmp_path, [*lines, agent(1, 11), *summary(1, 11)])
    assert len(body["attempts"]) == 1


def test_agents_of_two_hosts_end_the_same_attempt(tmp_path: Path) -> None:
    one = [*raised(1, "ValueError: bad"), agent(1, 11, 900), agent(0, 21, 901)]
    _, body = report_of(tmp_path, [*one, *one, *summary(1, 11)])
    assert [row["ranks"] for row in body["attempts"]] == [[1], [1]]


def test_what_was_caught_early_in_an_attempt_is_no_failure_of_it(tmp_path: Path) -> None:
    """Lines are counted up to the end of the attempt, not of the file."""
    lines = [*raised(0, "ConnectionError: metrics server is away"), *steps(0, 30)]
    lines += [*raised(1, "ValueError: bad"), agent(1, 11), *steps(0, 40), *steps(1, 40)]
    _, body = report_of(tmp_path, lines)
    assert [row["ranks"] for row in body["attempts"]] == [[1], []]


@pytest.mark.parametrize("tail", [[], ["W1121 17:08:48.457000 900 x.py:1028] Sending process 5"]])
def test_a_log_cut_behind_the_failure_did_not_recover(tmp_path: Path, tail: list[str]) -> None:
    report, body = report_of(tmp_path, [*raised(1, "ValueError: bad"), agent(1, 11), *tail])
    assert report.failed
    assert body["first_failure"]["ranks"] == [1]


def test_ranks_of_another_host_that_write_on_are_no_restart(tmp_path: Path) -> None:
    def on(host: str, rank: int, lines: list[str]) -> list[str]:
        return [f"[{host}:{rank % 2}]:{line}" for line in lines]

    victim = "RuntimeError: Connection closed by peer [10.0.0.1]:2434"
    lines = on("node1", 0, steps(0)) + on("node2", 2, steps(2))
    lines += [*on("node1", 1, raised(1, "ValueError: bad")), agent(1, 11)]
    lines += on("node2", 2, [*steps(2), *raised(2, victim)])
    report, body = report_of(tmp_path, lines)
    assert len(body["attempts"]) == 1
    assert report.failed
    assert body["first_failure"]["ranks"] == [1]


def test_folders_of_attempts(tmp_path: Path) -> None:
    for attempt, words in enumerate(["ValueError: bad", "KeyError: 'lr'"]):
        for rank in (0, 1):
            folder = tmp_path / "none_x" / f"attempt_{attempt}" / str(rank)
            folder.mkdir(parents=True)
            lines = [*steps(rank), *(raised(rank, words) if rank == attempt else [])]
            (folder / "stderr.log").write_text("\n".join(lines) + "\n")
    report = analyse([str(tmp_path)], RankLogOptions())
    body: Any = report.body
    assert [row["ranks"] for row in body["attempts"]] == [[0], [1]]
    assert body["first_failure"]["ranks"] == [1]


@pytest.mark.parametrize(
    ("names", "failed"),
    [
        (("attempt_0.log", "attempt_1.log"), False),
        (("train.restart1.log", "train.restart2.log"), False),
        (("attempt_1.log", "attempt_0.log"), True),
        (("attempt_0.log", "attempt_7.log"), True),  # the rest of a series is elsewhere
        (("attempt_0.log", "other.log"), True),
    ],
)
def test_names_count_attempts(tmp_path: Path, names: tuple[str, str], failed: bool) -> None:
    (tmp_path / names[0]).write_text("\n".join([*steps(0), *raised(0, "ValueError: bad")]) + "\n")
    (tmp_path / names[1]).write_text("\n".join(steps(0, 30)) + "\n")
    assert analyse([str(tmp_path)], RankLogOptions()).failed is failed


def test_a_requeued_job_of_slurm(tmp_path: Path) -> None:
    cancelled = "slurmstepd: error: *** {} ON n1 CANCELLED AT 2026-11-21T02:03:32 DUE TO {} ***"
    lines = [*steps(0, 20), *raised(1, "ValueError: bad")]
    lines += [
        cancelled.format("JOB 12", "JOB REQUEUE"),
        cancelled.format("STEP 12.0", "JOB REQUEUE"),
    ]
    report, body = report_of(tmp_path, [*lines, *steps(0, 30), *steps(1, 30)])
    assert len(body["attempts"]) == 2
    assert not report.failed


@pytest.mark.parametrize(("before", "alike"), [("KeyError: 'b'", 2), ("KeyError: 'c'", 1)])
def test_attempts_of_who_has_no_rank_are_alike_whatever_their_files_are_called(
    tmp_path: Path, before: str, alike: int
) -> None:
    for name, words in (("w-previous.log", before), ("w.log", "KeyError: 'b'")):
        text = (
            f'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\n{words}\n'
        )
        (tmp_path / name).write_text(f"step 1 loss 0.5\n{text}")
    read = read_rank_logs(find_rank_logs([str(tmp_path)])).logs
    assert decide_attempts(read).alike == alike
