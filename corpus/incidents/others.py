"""Incidents told by what others saw: the kernel, a scheduler, another run, a calm look."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from corpus.incidents.joined import SLOW
from corpus.incidents.make import ENV, JOB, case, postmortem, reported, torchrun, traced
from corpus.incidents.peers import dumped, each
from corpus.incidents.silent import free_port, look_at_all, ranks_pids, until

_SEGFAULT = """\
Nov 24 10:00:04 node1 kernel: python[88121]: segfault at 8 ip 00007f1fe31bbad8 sp \
00007ffd3b1c2a40 error 4 in libc.so.6[167ad8,7f1fe307a000+155000]
Nov 24 10:00:31 node1 kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,\
mems_allowed=0,oom_memcg=/other,task_memcg=/other,task=python,pid=88233,uid=1002
Nov 24 10:00:31 node1 kernel: Memory cgroup out of memory: Killed process 88233 (python) \
total-vm:885804kB, anon-rss:227876kB, file-rss:96792kB, shmem-rss:0kB, UID:1002 \
pgtables:1352kB oom_score_adj:0
"""
_CONTROLLER = """\
[2026-11-24T10:03:20.214] error: Nodes gpu-b not responding
[2026-11-24T10:04:20.215] error: Nodes gpu-b not responding, setting DOWN
[2026-11-24T10:04:20.220] requeue job JobId=4471 due to failure of node gpu-b
"""
_STEP = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=70211.batch. "
    "Some of the step tasks have been OOM Killed.\n"
)


@case
def calm_look(folder: Path) -> None:
    """Somebody looked at the stacks of a job that went on, and well."""
    look = look_at_all(folder, after=0)
    torchrun(folder, program=JOB, env={"PAUSE": "0.7"}, after=look)


@case
def earlier_core(folder: Path) -> None:
    """Started twice: a core is of the first start, the error of the second; no line has pids."""
    log = folder / "train.log"
    said = b""
    for fault in ("2=segv", "0=value"):
        torchrun(folder, fault, program=JOB, log="train.log", env={"QUIET": "1"}, more=SLOW)
        said += log.read_bytes()
        time.sleep(2)
    log.write_bytes(said)
    reported(folder)


@case
def kernel_of_others(folder: Path) -> None:
    """The kernel's log has the ends of two processes that are not of the job."""
    torchrun(folder, "2=value", program=JOB)
    (folder / "kern.log").write_text(_SEGFAULT)


@case
def sizes_differ(folder: Path) -> None:
    """Rank 1 sends more than the others expect; who gets it aborts, with a core."""
    torchrun(folder, "1=shape", program=JOB)
    reported(folder)


@case
def step_out_of_memory(folder: Path) -> None:
    """Slurm tells of a kill for memory in the step, torchrun which rank was killed."""
    torchrun(folder, "2=kill", program=JOB, log="slurm-70211.out")
    with (folder / "slurm-70211.out").open("a") as out:
        out.write(_STEP)


@case
def node_lost(folder: Path) -> None:
    """The controller lost the host of rank 2, whose log only stops."""

    def lose(pids: dict[int, int]) -> None:
        until(lambda: "step 3 " in (folder / "rank2.out").read_text())
        os.kill(pids[2], signal.SIGKILL)

    each(folder, program=JOB, env={"PAUSE": "1"}, after=lose)
    (folder / "slurmctld.log").write_text(_CONTROLLER)


@case
def looks_apart(folder: Path) -> None:
    """Two locks of rank 1 in a circle; each rank was looked at by itself."""

    def look(_: object) -> None:
        until(lambda: (folder / "job.log").read_text().count("step 2 ") > 0)
        time.sleep(6)
        for rank, pid in ranks_pids(folder).items():
            (folder / f"rank{rank}.json").write_text(postmortem("hang", str(pid), "--json"))

    torchrun(folder, "1=crossed", program=JOB, env={"TIMEOUT": "25"}, after=look)


def _pod(rank: int, code: int, **status: str) -> dict[str, object]:
    ended = {"terminated": {"exitCode": code, "reason": "Error"}}
    states = [{"lastState": {}, "name": "main", "state": ended}]
    name = {"name": f"trainer-{rank}"}
    return {"kind": "Pod", "metadata": name, "status": {"containerStatuses": states, **status}}


@case
def pods_node_went(folder: Path) -> None:
    """The node of rank 2 shut down, which only kubectl tells of its pod."""

    def lose(pids: dict[int, int]) -> None:
        until(lambda: "step 3 " in (folder / "trainer-2.log").read_text())
        os.kill(pids[2], signal.SIGKILL)

    each(folder, program=JOB, names="trainer-{}.log", env={"PAUSE": "1"}, after=lose)
    why = {"message": "Pod was terminated in response to imminent node shutdown."}
    pods = [_pod(0, 1), _pod(1, 1), _pod(2, 137, **why, reason="Terminated")]
    (folder / "pods.json").write_text(json.dumps({"items": pods, "kind": "List"}, indent=4))


@case
def alarm_recorded(folder: Path) -> None:
    """A limit of time ends rank 1; its recording has nothing of the job but its process."""
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    limit = (*traced(folder / "st.1", "process,kill"), "timeout", "-s", "ALRM", "25")
    jobs = []
    for rank in range(2):
        with (folder / f"log.{rank}").open("wb") as out:
            env = {**ENV, **place, "RANK": str(rank), "PAUSE": "8"}
            words = [*(limit if rank else ()), sys.executable, str(JOB)]
            jobs.append(subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=env))
    for job in jobs:
        job.wait(timeout=120)


@case
def half_in_own_code(folder: Path) -> None:
    """One of two ranks stands before two locks in a circle, as py-spy saw; then Ctrl-C."""

    def look(job: subprocess.Popen[bytes]) -> None:
        until(lambda: (folder / "job.log").read_text().count("step 2 ") > 0)
        time.sleep(6)
        for rank, pid in ranks_pids(folder).items():
            dumped(folder / f"stack{rank}.txt", pid)
        job.send_signal(signal.SIGINT)

    torchrun(folder, "1=crossed", program=JOB, ranks=2, after=look)
