"""What schedulers, servers and clusters say of themselves beside the logs of a job, or alone."""

from pathlib import Path

import pytest

from builders.ranklogs import report_of
from postmortem.analyses.ranklogs import RankLogOptions, analyse
from postmortem.knowledge.messages import explained
from postmortem.readers.ranklogs.read import read_rank_logs
from postmortem.readers.ranklogs.sources import find_rank_logs

HERE = "".join(f"[rank{rank}]:[I] here\n" for rank in range(4))
STEPS = "".join(f"step {n} | loss {3 - n / 50:.3f}\n" for n in range(12))


def waited(rank: int) -> str:
    said = (
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=31, "
        "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600041 milliseconds "
        "before timing out."
    )
    return f"[rank{rank}]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] {said}\n"


def raised(rank: int, said: str) -> str:
    rows = ("Traceback (most recent call last):", '  File "t.py", line 9, in <module>', said)
    return "".join(f"[rank{rank}]: {row}\n" for row in rows)


PORT = "[rank2]:n1:77:310 [3] NCCL WARN NET/IB : mlx5_3:1 Got async event : port error\n"


@pytest.mark.parametrize(("port", "rule"), [(PORT, "last_words"), ("", "rank_silent")])
def test_who_is_silent_behind_an_error_of_its_port(tmp_path: Path, port: str, rule: str) -> None:
    report = report_of(tmp_path, HERE + STEPS + port + "".join(map(waited, (0, 1, 3))))
    assert report.diagnoses[0].id == rule
    assert [row["rank"] for row in report.body["candidates"]] == ([2] if port else [])


@pytest.mark.parametrize(("host", "joined"), [("n1", "host"), ("n9", "nothing")])
def test_the_host_of_a_rank_that_nccl_names_is_that_of_its_kernel(
    tmp_path: Path, host: str, joined: str
) -> None:
    rows = "".join(
        f"n{n}:4{n}:4{n} [0] NCCL INFO comm 0x55 rank {n} nranks 3 cudaDev 0 busId 1b000 - "
        "Init COMPLETE\n"
        for n in range(3)
    )
    error = raised(1, "OSError: [Errno 5] Input/output error")
    evicted = (
        f"Nov 28 03:11:40 {host} kernel: LustreError: 167-0: scratch-OST0007-osc-ff9a: This client "
        "was evicted by scratch-OST0007; in progress operations using this service will fail.\n"
    )
    for name, text in (("job.log", rows + STEPS + error), ("kern.log", evicted)):
        (tmp_path / name).write_text(text)
    report = analyse([str(tmp_path)], RankLogOptions())
    assert [row["joined_by"] for row in report.body["kernel_events"]] == [joined]


SEL = "   4 | 11/20/2026 | 03:12:07 | Memory #0x63 | {} | Asserted\n"
SEL += "   5 | 11/20/2026 | 03:14:55 | System Boot Initiated | Initiated by hard reset | Asserted\n"
JOB = "JobId=71 JobName=train\n   JobState={} Reason={} Dependency=(null)\n"
JOB += "   Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n   NodeList=n[1-4]\n"
SPARK = "26/11/20 10:14:0{} {}\n"
LOST = (
    "ERROR YarnScheduler: Lost executor 9 on n7: Container killed by YARN for exceeding physical "
)
LOST += "memory limits. 10.4 GB of 10.4 GB physical memory used."
FINISHED = "INFO TaskSetManager: Finished task {}.0 in stage 3.0 (TID 4) in 8123 ms on n8 ({}/40)"
WELL = [FINISHED.format(n, n) for n in range(8)]


@pytest.mark.parametrize(
    ("text", "failed", "means"),
    [
        (SEL.format("Uncorrectable ECC"), True, "bmc-memory"),
        (SEL.format("Correctable ECC"), False, ""),
        (SPARK.format(9, LOST), True, "oom-yarn"),
        ("".join(SPARK.format(n, row) for n, row in enumerate([*WELL, LOST])), True, "oom-yarn"),
        ("".join(SPARK.format(n, row) for n, row in enumerate([LOST, *WELL])), False, ""),
        (
            "2026-11-24_03:23:12.006+0000: [E] Lost membership in cluster c1. Unmounting file "
            "systems.\n2026-11-24_03:23:13.310+0000: [N] mmfsd is shutting down.\n",
            True,
            "gpfs-expelled",
        ),
        ('  XidCriticalError     True    Mon, 23 Nov 2026   {"79":true}\n', True, "k8s-node-xid"),
        ("  XidCriticalError     False   Mon, 23 Nov 2026\n", False, ""),
    ],
)
def test_what_a_part_of_a_cluster_says_of_itself(
    tmp_path: Path, text: str, failed: bool, means: str
) -> None:
    report = report_of(tmp_path, text)
    assert report.failed is failed
    if means:
        assert explained(means).next_steps[0] in report.diagnoses[0].next_steps


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("    job_state = F\n    Exit_status = -29\n    queue = gpu\n", "stopped_from_outside"),
        (
            "  Normal  Preempted 2m kueue-admission  Preempted to accommodate a workload (UID: 0) "
            "due to prioritization in the ClusterQueue\n",
            "stopped_from_outside",
        ),
        (JOB.format("TIMEOUT", "TimeLimit"), "stopped_from_outside"),
    ],
)
def test_who_was_ended_by_whom_gave_the_place(tmp_path: Path, text: str, rule: str) -> None:
    assert report_of(tmp_path, text).diagnoses[0].id == rule


@pytest.mark.parametrize(("state", "done"), [("RUNNING", False), ("COMPLETED", True)])
def test_a_job_that_runs_is_not_done(tmp_path: Path, state: str, done: bool) -> None:
    report = report_of(tmp_path, JOB.format(state, "None"))
    assert not report.failed
    assert report.body["done"] is done


GONE_POD = """\
51m    Normal    Started                pod/worker-1   Started container pytorch
9m     Warning   NodeNotReady           pod/worker-1   Node is not ready
4m     Normal    TaintManagerEviction   pod/worker-1   Marking for deletion Pod ml/worker-1
"""


def test_a_pod_is_taken_away_because_its_node_does_not_answer(tmp_path: Path) -> None:
    report = report_of(tmp_path, GONE_POD)
    assert [end["host"] for end in report.body["exits"]] == ["worker-1"]
    assert "Node is not ready" in report.diagnoses[0].title


KUBELET = """\
Nov 12 03:04:05 n1 kubelet[71]: I1112 03:04:05.678901      71 eviction_manager.go:377] "Eviction manager: must evict pod(s) to reclaim" resourceName="memory"
Nov 12 03:04:06 n1 kubelet[71]: I1112 03:04:06.678901      71 eviction_manager.go:614] "Eviction manager: pod is evicted successfully" pod="ml/job-worker-0"
"""  # noqa: E501
REFUSED = """\
Name:             job-worker-0
Reason:           UnexpectedAdmissionError
Message:          Pod was rejected: Allocate failed due to no healthy devices present
Events:
  Normal   Scheduled  3m  default-scheduler  Successfully assigned ml/job-worker-0 to n1
"""


@pytest.mark.parametrize(
    ("text", "refused", "why"),
    [(KUBELET, False, "memory"), (REFUSED, True, "no healthy devices present")],
    ids=["evicted", "refused"],
)
def test_a_node_ends_a_pod_or_does_not_take_it(
    tmp_path: Path, text: str, refused: bool, why: str
) -> None:
    (tmp_path / "node.log").write_text(text)
    read = read_rank_logs(find_rank_logs([str(tmp_path / "node.log")]), world=None)
    (end,) = read.logs.exits
    assert (end.host, end.refused) == ("job-worker-0", refused)
    assert (end.unplaced if refused else end.evicted).endswith(why)
    assert report_of(tmp_path, text).diagnoses[0].id == "process_ended"


def test_a_pod_that_is_evicted_behind_a_job_that_is_done_is_none_of_it(tmp_path: Path) -> None:
    done = STEPS + "Training finished\n"
    for name in ("worker-0.log", "worker-1.log"):
        (tmp_path / name).write_text(done)
    (tmp_path / "events.txt").write_text(
        "LAST SEEN  TYPE     REASON     OBJECT        MESSAGE\n"
        "2m         Normal   Completed  job/train     Job completed\n"
        "1m         Warning  Evicted    pod/web-7d9   The node was low on resource: memory.\n"
    )
    assert not analyse([str(tmp_path)], RankLogOptions()).failed


@pytest.mark.parametrize(("pod", "rank"), [("job-worker-0", 0), ("job-worker-1", None)])
def test_a_log_that_is_called_as_a_pod_ends_is_its_log(
    tmp_path: Path, pod: str, rank: int | None
) -> None:
    (tmp_path / "worker-0.log").write_text(STEPS)
    (tmp_path / "events.txt").write_text(f"2m  Warning  Evicted  pod/{pod}  The node was low.\n")
    found = analyse([str(tmp_path)], RankLogOptions()).body["first_failure"]
    assert (found and found["rank"]) == rank


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("the metadata service says termination is imminent", "stopped_from_outside"),
        ("PreemptionError: Nodes of this job got pre-empted.", "stopped_from_outside"),
        ("resources failed with non-zero exit code: container failed with non-zero exit code: 137",
         "process_ended"),
        ("Task's current input in-01JC hit its timeout of 3600s", "stopped_from_outside"),
        ("[2026-11-12T09:11:31.109] Killing JobId=71 on failed node n4", "node_failed"),
        ("0.9s: job.exception type=prolog severity=0 prolog exited with code=1 on n4 (rank 7)",
         "node_refused_job"),
        ("the checkpoint of a termination is kept", None),
    ],
)  # fmt: skip
def test_who_took_the_machine_or_ended_the_container(
    tmp_path: Path, line: str, rule: str | None
) -> None:
    report = report_of(tmp_path, f"{STEPS}{line}\n")
    assert (report.diagnoses[0].id if report.diagnoses else None) == rule


def test_the_signal_of_an_abort_that_was_told_of_says_nothing_more(tmp_path: Path) -> None:
    said = "F1112 10:02:31.401301 71 client.h:77] Terminating process because the JAX distributed service detected fatal errors. absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n/job:jax_worker/replica:0/task:3\n*** SIGABRT received at time=1700000000 on cpu 1 ***\n"  # noqa: E501
    report = report_of(tmp_path, STEPS + said)
    assert report.body["first_failure"]["rank"] == 3


def test_why_ucx_aborts_is_told_with_the_signal(tmp_path: Path) -> None:
    said = "[n1:71:0:71] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n"  # noqa: E501
    report = report_of(tmp_path, STEPS + said)
    assert report.failed
    assert "Transport retry count exceeded" in report.verdict


@pytest.mark.parametrize(("value", "failed"), [("No", False), ("Yes", True)])
def test_a_field_for_a_failure_that_holds_none_is_no_error(
    tmp_path: Path, value: str, failed: bool
) -> None:
    rows = f"    Remapped Rows\n        Remapping Failure Occurred        : {value}\n"
    assert report_of(tmp_path, STEPS + rows).failed == failed
