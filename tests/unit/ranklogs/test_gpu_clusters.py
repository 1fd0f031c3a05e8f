"""Jobs over many GPUs: whose GPU, network or host failed, where most only tell that they waited."""

from pathlib import Path
from typing import Any

import pytest

from builders.ranklogs import raised_first, report_of
from postmortem.knowledge.messages import explained

STEPS = "".join(f"step {n} | loss {3 - n / 50:.3f}\n" for n in range(12))
AGENT = "torch/distributed/elastic/multiprocessing/api.py"
WARN = "n1:77:310 [3] NCCL WARN "


def waited(rank: int, work: int = 31) -> str:
    said = (
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={work}, "
        "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600041 milliseconds "
        "before timing out."
    )
    return (
        f"[rank{rank}]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] {said}\n"
        "terminate called after throwing an instance of 'c10::DistBackendError'\n"
        f"  what():  [PG 0 Rank {rank}] Process group watchdog thread terminated with exception: "
        f"{said}\n"
    )


def raised(rank: int, said: str) -> str:
    rows = ("Traceback (most recent call last):", '  File "t.py", line 9, in <module>', said)
    return "".join(f"[rank{rank}]: {row}\n" for row in rows)


def of_nccl(rank: int, kind: str, last: str) -> str:
    said = f"torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:1, {kind}"
    below = "".join(f"\n[rank{rank}]: {row}" for row in ("ncclKind: x", "Last error:", last))
    return raised(rank, said + below)


def failed(local: int, pid: int, *told: int, agent: int = 9) -> str:
    sent = f"W0321 02:07:09.1 {agent} {AGENT}:897] Sending process {{}} closing signal SIGTERM\n"
    ends = map(sent.format, told)
    last = f"failed (exitcode: 1) local_rank: {local} (pid: {pid}) of binary: python"
    return f"{''.join(ends)}E0321 02:07:09.2 {agent} {AGENT}:869] {last}\n"


def summary(host: str, *rows: tuple[int, int]) -> str:
    entries = "".join(
        f"{'Root Cause (first observed failure):' if n == len(rows) - 1 else 'Failures:'}\n[{n}]:\n"
        f"  time      : 2026-03-21_02:07:10\n  host      : {host}\n  rank      : {rank} "
        f"(local_rank: {rank})\n  exitcode  : 1 (pid: {pid})\n  error_file: <N/A>\n"
        "  traceback : To enable traceback see: https://pytorch.org\n"
        for n, (rank, pid) in enumerate(rows)
    )
    return f"{'=' * 60}\nt.py FAILED\n{'-' * 60}\n{entries}{'=' * 60}\n"


def told(folder: Path, text: str) -> tuple[str, object, str]:
    """Return the rule that tells what failed first, the rank, and how sure it is."""
    report = report_of(folder, text)
    first: Any = report.body["first_failure"]
    best = report.diagnoses[0]
    return best.id, first and first["rank"], best.confidence.value


XID = "[Wed Mar 18 11:42:31 2026] NVRM: Xid (PCI:0000:61:00): {}\n"
GONE = XID.format("79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
KILLED = (
    "[Wed Mar 18 11:42:31 2026] Out of memory: Killed process {} ({}) total-vm:512000000kB, "
    "anon-rss:480000000kB, file-rss:0kB, shmem-rss:0kB\n"
)
HERE = "".join(f"[rank{rank}]:[I] here\n" for rank in range(4)) + STEPS


@pytest.mark.parametrize(
    ("waiting", "kernel", "rule"),
    [
        ((0, 1, 3), GONE, "gpu_failed"),
        ((0, 1, 3), XID.format("31, pid=9, name=x, MMU Fault: ENGINE GRAPHICS"), "rank_silent"),
        ((0, 1), GONE, "only_victims"),
        ((0, 1, 3), KILLED.format(41, "python"), "killed_for_memory"),
        ((0, 1, 3), KILLED.format(41, "rsyslogd"), "rank_silent"),
        ((0, 1), KILLED.format(41, "python"), "only_victims"),
    ],
)
def test_a_gpu_that_failed_is_that_of_the_one_silent_rank(
    tmp_path: Path, waiting: tuple[int, ...], kernel: str, rule: str
) -> None:
    found = told(tmp_path, HERE + "".join(map(waited, waiting)) + kernel)
    assert found[:2] == (rule, None if rule == "only_victims" else 2)


@pytest.mark.parametrize("stopped", [True, False])
def test_a_rank_that_torchrun_ends_had_not_ended_by_itself(tmp_path: Path, stopped: bool) -> None:
    ends = failed(0, 11, *((13,) if stopped else ()))
    rows = summary("n1", (1, 12), (3, 14), (0, 11))
    found = told(tmp_path, STEPS + "".join(map(waited, (0, 1, 3))) + ends + rows)
    assert found[:2] == ("rank_silent" if stopped else "rank_left_early", 2)


def test_whom_torchrun_ends_may_have_raised_too(tmp_path: Path) -> None:
    text = "".join(raised(rank, "KeyError: 1") for rank in range(3)) + failed(0, 11, 12, 13)
    report = report_of(tmp_path, text + summary("n1", (0, 11)))
    assert (report.diagnoses[0].id, report.diagnoses[0].lead) == (
        "every_rank_raised",
        "all 3 ranks",
    )


def test_agents_of_two_containers_have_one_pid(tmp_path: Path) -> None:
    lost = of_nccl(1, "remote process exited or there was a network error", "socketProgress: x")
    first = lost + raised(3, "KeyError: 1") + failed(1, 12) + summary("n1", (1, 12))
    report = report_of(tmp_path, STEPS + first + failed(1, 14, 15) + summary("n2", (3, 14)))
    attempts: Any = report.body["attempts"]
    assert (len(attempts), raised_first(report)) == (1, (3, "KeyError: 1"))


def test_a_kernels_log_below_is_no_new_attempt(tmp_path: Path) -> None:
    report = report_of(tmp_path, STEPS + raised(1, "KeyError: 1") + failed(1, 12) + GONE * 3)
    attempts: Any = report.body["attempts"]
    assert (len(attempts), raised_first(report)) == (1, (1, "KeyError: 1"))


JAX = """\
F0714 05:41:12.5 912 client.h:80] Terminating process because the JAX distributed service detected \
fatal errors. absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending \
heartbeats):
/job:jax_worker/replica:0/task:5
*** Check failure stack trace: ***
*** SIGABRT received by PID 88 (TID 912) on cpu 3 from PID 88; ***
Fatal Python error: Aborted
"""


def test_a_process_that_aborts_because_a_task_is_gone_is_a_victim(tmp_path: Path) -> None:
    assert told(tmp_path, STEPS + JAX) == ("rank_named_missing", 5, "likely")
    assert told(tmp_path, STEPS + JAX[JAX.index("*** SIG") :])[0] == "rank_crashed"


NO_ROUTE = "Connect to 192.168.122.1<40211> returned 113(No route to host) errno 115(x)"
REMOTE = "remote process exited or there was a network error"


def test_a_peer_whose_address_leads_nowhere(tmp_path: Path) -> None:
    text = of_nccl(1, REMOTE, f"socketPollConnect: {NO_ROUTE}") + failed(1, 12)
    report = report_of(tmp_path, text + summary("n1", (1, 12)))
    best = report.diagnoses[0]
    assert best.id == "peers_unreachable"
    assert "192.168.122.1" in best.title


def test_ranks_whose_proxy_is_gone_are_victims(tmp_path: Path) -> None:
    gone = "Socket recv failed while polling for opId=0x55a5"
    text = "".join(of_nccl(rank, "internal error", gone) for rank in (0, 1, 2))
    text += of_nccl(3, "unhandled cuda error", "Failed to CUDA calloc 6291456 bytes")
    assert told(tmp_path, text)[:2] == ("rank_raised", 3)


def test_last_words_that_are_known_bring_their_steps(tmp_path: Path) -> None:
    refused = f"{WARN}socketStartConnect: Connect to 172.17.0.1<45> failed : Connection refused\n"
    text = "".join(f"n{n % 2 + 1}: epoch {n}\n" for n in range(12)) + f"n1: {refused}"
    text += "pdsh@head: n1: ssh exited with exit code 1\n"
    best = report_of(tmp_path, text).diagnoses[0]
    assert best.id == "rank_exited_silently"
    assert best.next_steps[0] == explained("nccl-no-route").next_steps[0]


OFI = f"{WARN}NET/OFI Request 0x7f1d completed with error. RC: 113. Error: 15 (Unresponsive)\n"
PORT = f"{WARN}NET/IB : mlx5_2:1 Got async event : port error\n"
FLAP = f"{WARN}NET/IB : mlx5_2:1 Got non-fatal async event: port error(10)\n"


@pytest.mark.parametrize(("warning", "rule"), [(OFI, "last_words"), (PORT, "last_words")])
def test_a_network_that_broke_is_told_for_who_is_silent(
    tmp_path: Path, warning: str, rule: str
) -> None:
    waits = "".join(map(waited, (0, 5, 9)))
    aborted = "srun: error: n2: task 4: Aborted\n"
    for text in (warning + waits, warning + waits + aborted):
        best = report_of(tmp_path, STEPS + text).diagnoses[0]
        assert best.id == rule
        assert best.evidence[0].where == "job.log:13"
    for text in (waits, waits + warning, FLAP + waits):
        assert report_of(tmp_path, STEPS + text).diagnoses[0].id == "only_victims"


def test_a_pod_that_its_node_evicted_as_events_tell_it(tmp_path: Path) -> None:
    lost = "RuntimeError: [pair.cc:534] Connection closed by peer [10.244.3.19]:33412"
    text = "".join(f"[pod/job-worker-{n % 3}/main] step {n}\n" for n in range(9))
    rows = ("Traceback (most recent call last):", '  File "t.py", line 9, in <module>', lost)
    text += "".join(f"[pod/job-worker-{n}/main] {row}\n" for n in (0, 1) for row in rows)
    event = "4m  Warning  Evicted  pod/job-worker-2  The node was low on resource: memory.\n"
    report = report_of(tmp_path, text + event)
    first: Any = report.body["first_failure"]
    assert (report.diagnoses[0].id, first["label"]) == ("rank_crashed", "job-worker-2")


DEAD = (
    "(raylet) The node with node id: 0fc1 and address: 10.0.0.2 and node name: x has been marked "
    "dead because the detector has missed too many heartbeats from it.\n"
)


@pytest.mark.parametrize("lost", [True, False])
def test_a_host_that_ray_lost(tmp_path: Path, lost: bool) -> None:
    end = "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task."
    rows = ("Traceback (most recent call last):", '  File "t.py", line 9, in <module>', end)
    text = STEPS + DEAD + ("\n".join(rows) if lost else STEPS * 3 + "training finished") + "\n"
    found = [one.id for one in report_of(tmp_path, text).diagnoses]
    assert (found[:1] == ["node_failed"]) is lost


def test_of_an_error_of_nccl_its_last_word_is_told(tmp_path: Path) -> None:
    last = "Bootstrap Root : mismatch in rank count from procs 16 : 8"
    report = report_of(tmp_path, STEPS + of_nccl(1, "internal error", last))
    assert raised_first(report) == (1, f"torch.distributed.DistBackendError: ncclKind: {last}")


@pytest.mark.parametrize(
    ("why", "rule"),
    [("Communication connection failure", "node_failed"), ("execve failed", "last_words")],
)
def test_a_host_that_slurm_cannot_reach_to_launch(tmp_path: Path, why: str, rule: str) -> None:
    text = f"srun: error: Task launch for StepId=31.0 failed on node n3: {why}\n"
    assert report_of(tmp_path, text).diagnoses[0].id == rule


def test_a_device_of_xla_that_did_not_come_is_no_crash_of_its_own(tmp_path: Path) -> None:
    said = "Termination timeout for `x` of 40 seconds exceeded. Exiting to ensure a consistent "
    text = f"F rendezvous.cc:78] [id=0] {said}program state. Expected 8 threads\n"
    assert told(tmp_path, STEPS + text + "Fatal Python error: Aborted\n")[0] == "only_victims"


@pytest.mark.parametrize("host", ["n1", "n2"])
def test_nccls_warning_beside_an_error_that_says_less_brings_its_steps(
    tmp_path: Path, host: str
) -> None:
    full = "Error while creating shared memory segment /dev/shm/nccl-W (size 9637888)"
    said = "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
    other = f"{host}:78:311 [2] NCCL WARN socketProgress: x\n"
    text = f"{STEPS}{WARN}{full}\n{other if host == 'n2' else ''}{raised(3, said)}"
    step = explained("nccl-shm-create").next_steps[0]
    best = report_of(tmp_path, text).diagnoses[0]
    assert (best.id, step in best.next_steps) == ("rank_raised", host == "n1")


def test_a_worker_that_is_gone_beside_the_banner_of_its_bus_error(tmp_path: Path) -> None:
    banner = "ERROR: Unexpected bus error encountered in worker. This might be caused by x (shm).\n"
    gone = raised(1, "RuntimeError: DataLoader worker (pid(s) 8812) exited unexpectedly")
    best = report_of(tmp_path, STEPS + banner + gone).diagnoses[0]
    assert explained("dl-bus-banner").next_steps[0] in best.next_steps


def of_group(guid: int, rank: int, *, of_all: int, op: str) -> str:
    said = f"[PG ID 11 PG GUID {guid} Rank {rank}] "
    work = f"WorkNCCL(SeqNum=57, OpType={op}, NumelIn=1, NumelOut=1, Timeout(ms)=9) ran for 9 ms"
    ends = f"Process group watchdog thread terminated with exception: [Rank {rank}] Watchdog "
    ends += f"caught collective operation timeout: {work}"
    what = f"terminate called after throwing an instance of 'c10::Error'\n  what():  {said}{ends}\n"
    return f"[rank{of_all}]:[E218 04:54:22.1 ProcessGroupNCCL.cpp:1896] {said}{ends}\n{what}"


def test_ranks_of_a_group_are_no_ranks_of_the_job_and_groups_go_by_their_guid(
    tmp_path: Path,
) -> None:
    rows = [of_group(119, n, of_all=12 + n, op="ALLTOALL_BASE") for n in (0, 1)]
    text = STEPS + "".join(rows) + of_group(112, 0, of_all=15, op="ALLREDUCE")
    report = report_of(tmp_path, text)
    assert report.diagnoses[0].id == "only_victims"
    assert {row["rank"] for row in report.body["ranks"]} - {None} == {12, 13, 15}


def test_who_aborts_by_its_watchdog_is_asked_how_far_it_was(tmp_path: Path) -> None:
    far = "[rank{0}]:[E603 17:48:01.1 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) "
    far += "Rank {0}]  failure detected by watchdog at work sequence id: 1 PG status: last enqueued"
    far += " work: {1}, last completed work: 1\n"
    rows = "".join(waited(n) + far.format(n, 31) for n in (0, 1, 3)) + far.format(2, 28)
    ends = "srun: error: n1: tasks 0-3: Aborted\n"
    assert told(tmp_path, STEPS + rows + ends)[:2] == ("rank_named_missing", 2)


@pytest.mark.parametrize(
    ("line", "rule", "who"),
    [
        ("ping RPC timeout from x4212c7s0b0n0 after 120s", "node_failed", None),
        (
            "1.1s: flux-shell[1]: FATAL: doom: rank 5 on host n7 failed and exit-on-error is set",
            "rank_exited_silently",
            5,
        ),
        (
            "0: Segmentation fault from GPU at 0xff00, ctx_id: 1 (CCS) type: 0 (X)",
            "rank_crashed",
            0,
        ),
    ],
)
def test_words_of_launchers_and_drivers(
    tmp_path: Path, line: str, rule: str, who: int | None
) -> None:
    steps = "".join(f"{n % 2}: step {n}\n" for n in range(12))
    assert told(tmp_path, f"{steps}{line}\n")[:2] == (rule, who)


def test_a_launcher_below_pdsh_says_more_than_the_code_of_its_shell(tmp_path: Path) -> None:
    text = "".join(f"n{n % 2 + 1}: step {n}\n" for n in range(12))
    text += "n2: [ERROR] [launch.py:322:sigkill_handler] ['python'] exits with return code = -7\n"
    report = report_of(tmp_path, text + "pdsh@n1: n2: ssh exited with exit code 249\n")
    assert report.diagnoses[0].id == "rank_crashed"
    assert "SIGBUS" in report.diagnoses[0].title


def test_a_shell_that_says_killed_speaks_of_the_launcher(tmp_path: Path) -> None:
    said = "[Rank 0]: Rank 2 failed to pass monitoredBarrier in 600000 ms"
    text = STEPS + raised(0, f"RuntimeError: {said}")
    assert told(tmp_path, f"{text}Killed\n")[:2] == ("rank_named_missing", 2)


STORE = '[rank{}]:[W112 01:48:44.1 ProcessGroupNCCL.cpp:1771] Failed to check the "should dump" '
STORE += (
    "flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Broken pipe"
)


@pytest.mark.parametrize("done", [True, False])
def test_a_store_that_is_gone_when_all_is_done(tmp_path: Path, done: bool) -> None:
    text = STEPS + "Training complete\n" * done + f"{STORE.format(1)}\n{STORE.format(2)}\n"
    assert bool(report_of(tmp_path, text).diagnoses) is not done


@pytest.mark.parametrize("labelled", [True, False])
def test_a_process_whose_cuda_failed_inside_nccl_may_speak_last(
    tmp_path: Path, labelled: bool
) -> None:
    lost = f"{WARN.replace('77', '78')}Socket recv failed while polling for opId=0x5\n"
    own = f"{WARN}Cuda failure 'out of memory'\n"
    error = of_nccl(4, "internal error", "Socket recv failed while polling for opId=0x5")
    error = error if labelled else error.replace("[rank4]: ", "")
    best = report_of(tmp_path, STEPS + lost + own + error).diagnoses[0]
    assert best.id == "last_words"
    assert best.next_steps == explained("nccl-cuda-call").next_steps


def test_ncclras_names_the_rank_that_does_not_answer(tmp_path: Path) -> None:
    ras = "#0-0 (27a0) INCOMPLETE\n  Missing communicator data from 1 rank\n"
    ras += "  Rank 21 -- GPU 5 managed by process 3487 on node 172.16.64.213\n"
    report = report_of(tmp_path, STEPS + ras + "".join(map(waited, (0, 3, 8))))
    assert report.diagnoses[0].id == "only_victims"
    assert report.diagnoses[0].evidence[0].where == "job.log:15"


BAR = " 12%|█▏   | 12/780 [00:21<2:37:37,  1.21s/it]"
XLA = "{}0102 03:04:05.678901   71 client.cc:48] Non-OK-status: status: INTERNAL: it stopped\n"


@pytest.mark.parametrize(("level", "certain"), [("F", True), ("E", False)])
def test_behind_a_fatal_status_of_glog_a_process_aborts(
    tmp_path: Path, level: str, certain: bool
) -> None:
    below = "=== Source Location Trace: ===\nruntime/ends.cc:113\n"
    _, _, sure = told(tmp_path, STEPS + BAR + XLA.format(level) + below)
    assert (sure == "certain") is certain


@pytest.mark.parametrize("cause", ["non-zero status: 4 poll failed, status: 4", "NULL value no ah"])
def test_an_error_of_nvshmem_is_no_code_of_a_program(tmp_path: Path, cause: str) -> None:
    text = f"{STEPS}/b/main_nvshmem/src/host/init/init.cu:104: {cause}\n"
    report = report_of(tmp_path, text)
    assert report.failed
    assert report.diagnoses[0].evidence[-1].where == "job.log:13"


@pytest.mark.parametrize(
    "rows", ["Jobs started:   71\nJobs canceled:  4\n", "71,RUNNING\n72,CANCELLED\n"]
)
def test_what_a_scheduler_counts_or_lists_is_no_end(tmp_path: Path, rows: str) -> None:
    assert not report_of(tmp_path, rows * 3).failed


@pytest.mark.parametrize("pid", [77, 78])
def test_a_call_of_cuda_fails_behind_the_network_of_its_process(tmp_path: Path, pid: int) -> None:
    lost = (
        WARN.replace("77", str(pid))
        + "NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129\n"
    )
    last = f"{WARN}Cuda failure 'an illegal memory access was encountered'\n"
    report = report_of(
        tmp_path, f"{STEPS}{lost}n1:77:77 [3] NCCL INFO Destroyed comm 0x7f24 rank 4\n{last}"
    )
    assert report.diagnoses[0].evidence[0].where == ("job.log:13" if pid == 77 else "job.log:15")


@pytest.mark.parametrize(("count", "failed"), [(0, False), (3, True)])
def test_a_column_of_counts_may_count_no_failure(tmp_path: Path, count: int, failed: bool) -> None:
    assert (
        report_of(tmp_path, f"{STEPS}Shards done:     70\nShards failed:   {count}\n").failed
        is failed
    )
