"""Workers that end: who tells of it, and what they said themselves."""

from pathlib import Path
from typing import Any

import pytest

from builders.ranklogs import raised_first, report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse

_LOST = (
    "distributed.nanny.memory - WARNING - Worker tcp://n1:4{0} (pid={0}) exceeded 95% memory"
    " budget. Restarting...\n"
    "distributed.nanny - INFO - Worker process {0} was killed by signal 15\n"
    "distributed.nanny - WARNING - Restarting worker\n"
)
_FAILED = "distributed.nanny - INFO - Worker process {0} exited with status 1\n"
_STARTED = "distributed.worker - INFO -       Start worker at:     tcp://n1:4{0}\n"
_WORK = "".join(f"trainer - INFO - step {n} loss 0.{n}\n" for n in range(5))


@pytest.mark.parametrize(
    ("lost", "times", "behind", "failed"),
    [
        (_LOST, 5, "", True),
        (_FAILED, 5, "", True),
        (_LOST, 1, "", False),
        (_LOST, 5, _STARTED.format(77) + _WORK, False),
        (_STARTED + _WORK + _LOST, 2, "", False),
        ("distributed.nanny - INFO - Worker process {0} exited with status 0\n", 5, "", False),
    ],
)
def test_workers_that_are_lost_to_the_end(
    tmp_path: Path, lost: str, times: int, behind: str, failed: bool
) -> None:
    text = "".join(f"{_STARTED}{lost}".format(910 + n) for n in range(times))
    (tmp_path / "nanny.log").write_text(text + behind)
    report = analyse([str(tmp_path / "nanny.log")], RankLogOptions())
    assert report.failed is failed


_ACTOR = "(Shard pid=91, ip=10.0.4.7) "
_MASTER = "(Master pid=81) "
_LOST_ACTOR = (
    _MASTER + "Traceback (most recent call last):\n"
    f'{_MASTER}  File "/job/main.py", line 12, in run\n{_MASTER}    fit()\n'
    f"{_MASTER}ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this "
    "task.\n"
)


def test_an_actor_whose_last_line_reads_like_an_error_is_not_silent(tmp_path: Path) -> None:
    said = f"{_ACTOR}CUDA error (/x/a.h:18): an illegal memory access was encountered\n"
    report = report_of(tmp_path, said + _LOST_ACTOR)
    first = raised_first(report)
    assert first is not None
    assert first[1].startswith("CUDA error (/x/a.h:18)")
    assert "compute-sanitizer" in " ".join(report.diagnoses[0].next_steps)
    silent = report_of(tmp_path, f"{_ACTOR}loading shard 3\n" + _LOST_ACTOR)
    assert raised_first(silent) is None


_GONE = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    "\tclass_name: Shard\n\tpid: 412\n\tip: 10.3.0.8\n"
    "The actor is dead because its worker process has died. Worker exit type: {} Worker exit "
    "detail: Worker unexpectedly exits with a connection error code 2. End of file.\n"
)
_DRIVER = (
    "(Shard pid=412, ip=10.3.0.8) step 0 loss 2.75\n"
    "(Shard pid=412, ip=10.3.0.8) step 1 loss 2.5\n"
    "2026-11-20 12:10:00,000 WARNING drive.py:40 -- lost a shard\n"
    'Traceback (most recent call last):\n  File "/job/drive.py", line 31, in gather\n'
    "    ray.get(shard.step.remote(k))\n"
)
_ANOTHER = "".join(f"(Shard pid=977, ip=10.3.0.8) step {n} loss 1.{n}\n" for n in range(2, 6))
_DONE = "2026-11-20 12:30:00,000 INFO drive.py:60 -- training finished\n"


@pytest.mark.parametrize(
    ("kind", "behind", "rule"),
    [
        ("SYSTEM_ERROR", "", "rank_exited_silently"),
        ("NODE_OUT_OF_MEMORY", "", "rank_crashed"),
        ("INTENDED_USER_EXIT", "", "only_victims"),
        ("SYSTEM_ERROR", _ANOTHER, "only_victims"),
    ],
)
def test_an_actor_that_died_by_the_word_of_the_exception(
    kind: str, behind: str, rule: str, tmp_path: Path
) -> None:
    report = report_of(tmp_path, _DRIVER + _GONE.format(kind) + behind)
    assert report.diagnoses[0].id == rule


def test_an_actor_that_died_and_was_replaced_ended_no_job(tmp_path: Path) -> None:
    text = _DRIVER + _GONE.format("SYSTEM_ERROR") + _ANOTHER + _DONE
    (tmp_path / "run.log").write_text(text)
    assert not analyse([str(tmp_path / "run.log")], RankLogOptions()).failed


@pytest.mark.parametrize(
    ("said", "ranks"),
    [
        ("CUDA error: uncorrectable ECC error encountered", [3]),
        ("CUDA error: unspecified launch failure", [3]),
        ("NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO), NCCL version 2.22.3", [3]),
        ("[Rank 3] Some collectives were aborted: NCCL error: remote process exited", None),
    ],
)
def test_whose_watchdog_ends_by_an_error_of_its_gpu(
    said: str, ranks: list[int] | None, tmp_path: Path
) -> None:
    head = "[rank{0}]:[E1121 02:03:32.000000 ProcessGroupNCCL.cpp:{0}] [Rank {0}] "
    text = (
        f"{head.format(3)}Process group watchdog thread terminated with exception: {said}\n"
        f"{head.format(1)}Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, "
        "OpType=ALLREDUCE, NumelIn=2, NumelOut=2, Timeout(ms)=600000) ran for 600041 milliseconds "
        "before timing out.\n"
    )
    body: Any = report_of(tmp_path, text).body
    assert (body["first_failure"] or {"ranks": None})["ranks"] == ranks


@pytest.mark.parametrize(
    ("why", "stopped"), [(" DUE TO TIME LIMIT", True), (" DUE TO PREEMPTION", True), ("", False)]
)
def test_tasks_that_are_killed_right_above_the_word_that_a_limit_ends_the_step(
    why: str, stopped: bool, tmp_path: Path
) -> None:
    text = (
        "srun: error: node3: tasks 4-7: Killed\nslurmstepd: error: *** STEP 71.0 ON node1 "
        f"CANCELLED AT 2026-11-21T02:03:32{why} ***\n"
    )
    body: Any = report_of(tmp_path, text).body
    assert (body["first_failure"] is None) is stopped
    far = text.replace("slurm", "still here\n" * 9 + "slurm", 1)
    body = report_of(tmp_path, far).body
    assert body["first_failure"]["ranks"] == [4, 5, 6, 7]


_MONITOR = (
    "[rank{0}]:[E1121 02:03:32.000000 ProcessGroupNCCL.cpp:1685] [PG ID 0 PG GUID 0 Rank {0}] "
    "Heartbeat monitor timed out! Process will be terminated after dumping debug info.\n"
)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("[rank0]: step 8\n" + _MONITOR.format(2), [2]),
        (_MONITOR.format(2) + _MONITOR.format(0), None),
        (_MONITOR.format(2), None),
        (
            "terminate called after throwing an instance of 'std::runtime_error'\n"
            "  what():  [Rank 6] Caught collective operation timeout: WorkNCCL(SeqNum=34, "
            "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1805631 milliseconds before timing "
            "out.\nFatal Python error: Aborted\n",
            None,
        ),
    ],
    ids=["one that stood still", "two", "one alone", "one that waited, as torch 1.11 says it"],
)
def test_a_monitor_that_ends_a_process(text: str, ranks: list[int] | None, tmp_path: Path) -> None:
    report = report_of(tmp_path, text)
    body: Any = report.body
    assert (body["first_failure"] or {"ranks": None})["ranks"] == ranks
    assert report.diagnoses[0].confidence != "certain"


@pytest.mark.parametrize(
    "said",
    [
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. "
        "15/16 clients joined.",
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, "
        "for key: k:1 (world_size=16, num_workers_joined=15, timeout=0:30:00)",
    ],
)
def test_that_a_rank_never_came_is_told_without_a_traceback_too(said: str, tmp_path: Path) -> None:
    for head in ("", "[rank0]: "):
        report = report_of(tmp_path, f"{head}{said}\n")
        assert report.diagnoses[0].id == "rank_never_joined"
        assert report.body["first_failure"] is None  # type: ignore[attr-defined]


def test_a_run_that_only_says_that_others_failed_is_no_cause(tmp_path: Path) -> None:
    raylet = (
        "(raylet, ip=10.2.0.9) node_manager.cc:3251: 1 Workers (tasks / actors) killed due to "
        "memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 8f, IP: "
        "10.2.0.9) over the last time period.\n"
    )
    frame = '  File "/job/run.py", line 40, in <module>\n    result = trainer.fit()\n'
    raised = (
        f"Traceback (most recent call last):\n{frame}ray.train.base_trainer.TrainingFailedError: "
        "The Ray Train run failed. Please inspect the previous error messages for a cause.\n"
    )
    assert report_of(tmp_path, raylet + raised).diagnoses[0].id != "rank_raised"
    other = raised.replace("Please inspect the previous error messages for a cause", "No data")
    assert report_of(tmp_path, other).diagnoses[0].id == "rank_raised"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "*** Error in `python': double free or corruption (!prev): 0x000055d0c3a1b2c0 ***\n"
            "Aborted (core dumped)\n",
            "double free or corruption",
        ),
        (
            "slurmstepd: error: execve(): /job/run.sh: Permission denied\n"
            "srun: error: n7: tasks 0-7: Exited with exit code 13\n",
            "execve(): /job/run.sh: Permission denied",
        ),
    ],
)
def test_what_stands_above_an_end_is_told_with_it(text: str, said: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, text)
    cited = (evidence.what for evidence in report.diagnoses[0].evidence)
    assert any(said in words for words in (report.verdict, *cited))


@pytest.mark.parametrize(
    ("code", "local", "first"),
    [(3, 1, [1]), (1, 1, None), (3, 0, None)],
    ids=["of the silent one", "as of any exception", "of another"],
)
def test_whose_agent_tells_in_a_file_of_its_own(
    code: int, local: int, first: list[int] | None, tmp_path: Path
) -> None:
    lost = (
        'Traceback (most recent call last):\n  File "/job/t.py", line 4, in main\n'
        "    dist.all_reduce(g)\nRuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed "
        "by peer [10.0.0.2]:4000\n"
    )
    for rank in range(4):
        text = "".join(f"rank {rank} step {n}\n" for n in range(9))
        (tmp_path / f"rank{rank}.log").write_text(text + ("" if rank == 1 else lost))
    (tmp_path / "launcher.log").write_text(
        "E1121 02:03:32.000000 90 torch/distributed/elastic/multiprocessing/api.py:874] failed "
        f"(exitcode: {code}) local_rank: {local} (pid: 47) of binary: /usr/bin/python3\n"
    )
    body: Any = analyse([str(tmp_path)], RankLogOptions()).body
    assert (body["first_failure"] or {"ranks": None})["ranks"] == first


@pytest.mark.parametrize(
    ("last", "why", "failed"),
    [
        ("training complete", "", False),
        ("loading the next shard", "", True),
        ("training complete", " DUE TO TIME LIMIT", True),
    ],
)
def test_a_job_that_is_cancelled_when_its_ranks_are_done(
    last: str, why: str, failed: bool, tmp_path: Path
) -> None:
    for rank in range(2):
        text = "".join(f"step {n} loss 0.{n}\n" for n in range(9))
        (tmp_path / f"rank{rank}.log").write_text(f"{text}{last}\n")
    (tmp_path / "slurm-12.out").write_text(
        f"slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-21T02:03:32{why} ***\n"
    )
    assert analyse([str(tmp_path)], RankLogOptions()).failed is failed


_LOST = (
    "A worker died or was killed while executing a task by an unexpected system error. Worker IP "
    "address: 10.0.0.2 Worker port: 10003 Worker PID: 4712 Worker exit type: SYSTEM_ERROR Worker "
    "exit detail: {}\n"
)


@pytest.mark.parametrize(
    ("why", "rule"),
    [
        ("Task was killed due to the node running low on memory.", "rank_crashed"),
        ("Worker unexpectedly exits with a connection error code 2.", "rank_exited_silently"),
    ],
)
def test_a_worker_that_ray_ended_for_memory(tmp_path: Path, why: str, rule: str) -> None:
    assert report_of(tmp_path, _LOST.format(why)).diagnoses[0].id == rule


_NOTICED = "mpirun noticed that process rank 3 with PID {} on node {} exited"


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        (_NOTICED.format(4711, "n1") + " on signal 11 (Segmentation fault).\n", "SIGSEGV"),
        (_NOTICED.format("xxxx", "xxxx") + " on signal 9 (Killed).\n", "SIGKILL"),
        (_NOTICED.format(4711, "n1") + "\non signal 9 (Killed).\n", "SIGKILL"),
        (_NOTICED.format(4711, "n1") + "\n", None),
    ],
)
def test_the_sentence_of_mpirun_may_be_broken_cut_or_blotted_out(
    tmp_path: Path, text: str, signal: str | None
) -> None:
    first = report_of(tmp_path, text).body["first_failure"]
    assert first["ranks"] == [3]
    assert [end["signal"] for end in report_of(tmp_path, text).body["exits"]] == [signal]


@pytest.mark.parametrize(("level", "failed"), [("C", True), ("W", False)])
def test_a_check_of_rays_own_ends_its_process(tmp_path: Path, level: str, failed: bool) -> None:
    head = f"(raylet) [2026-01-02 03:04:05,678 {level} 71 71] (raylet) a.cc:9: "
    report = report_of(tmp_path, f"{head} Check failed: a > b\n")
    assert [found.id for found in report.diagnoses].count("rank_crashed") == failed
