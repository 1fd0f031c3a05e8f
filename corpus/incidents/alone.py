"""Incidents of a program without ranks, whose log does not say which process wrote it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from corpus.incidents.make import ENV, HERE, case, full_disk, postmortem, reported, traced
from corpus.incidents.silent import until

ALONE = HERE / "programs" / "alone.py"
_MEMORY = """\
[Tue Nov 24 10:00:{at} 2026] pt_data_worker invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), \
order=0, oom_score_adj=0
[Tue Nov 24 10:00:{at} 2026] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,\
mems_allowed=0,oom_memcg=/train,task_memcg=/train,task=pt_data_worker,pid={pid},uid=1000
[Tue Nov 24 10:00:{at} 2026] Memory cgroup out of memory: Killed process {pid} \
(pt_data_worker) total-vm:1313060kB, anon-rss:690848kB, file-rss:20120kB, shmem-rss:0kB, \
UID:1000 pgtables:1568kB oom_score_adj:0
"""
_POD = """\
Name:             trainer-0
Namespace:        research
Node:             gpu-17/10.0.4.17
Status:           Running
Containers:
  trainer:
    Image:          registry.example/trainer:12
    State:          Running
      Started:      Tue, 24 Nov 2026 10:09:41 +0000
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Tue, 24 Nov 2026 10:00:11 +0000
      Finished:     Tue, 24 Nov 2026 10:09:30 +0000
    Ready:          True
    Restart Count:  1
    Limits:
      memory:  4Gi
Events:
  Type     Reason   Age  From     Message
  ----     ------   ---  ----     -------
  Warning  BackOff  60s  kubelet  Back-off restarting failed container trainer in pod trainer-0
"""


def alone(
    folder: Path,
    *words: str,
    log: str = "train.log",
    errors: str | None = None,
    before: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
    after: Callable[[subprocess.Popen[bytes]], None] | None = None,
) -> None:
    """Run the program in `folder`, what it writes in a log there."""
    with (folder / log).open("ab") as out, (folder / (errors or log)).open("ab") as err:
        job = subprocess.Popen(
            [*before, sys.executable, str(ALONE), *words],
            cwd=folder,
            stdout=out,
            stderr=err,
            env=ENV | (env or {}),
        )
        if after is not None:
            after(job)
        job.wait(timeout=60)


def _kill_at_step(folder: Path, step: int, log: str = "train.log") -> Callable[..., None]:
    def kill(job: subprocess.Popen[bytes]) -> None:
        until(lambda: f"step {step}:" in (folder / log).read_text())
        job.kill()

    return kill


@case
def alone_disk_full(folder: Path) -> None:
    """A checkpoint finds no room: the recording says why, the log only that its size is wrong."""
    with full_disk() as place:
        before = traced(folder / "strace.txt", "openat,write,process")
        alone(folder, before=before, env={"CKPT": str(place)})


@case
def alone_killed(folder: Path) -> None:
    """Somebody killed the program under `postmortem run`."""
    words = [sys.executable, "-m", "postmortem", "run", "--", sys.executable, str(ALONE)]
    with (folder / "console.log").open("wb") as out:
        run = subprocess.Popen(
            words, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env=ENV | {"PAUSE": "1"}
        )
        until(lambda: "step 3:" in (folder / "console.log").read_text())
        words = ["pgrep", "-f", f"^{sys.executable} {ALONE}"]
        found = subprocess.run(words, capture_output=True, text=True, check=True)
        os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
        run.wait(timeout=60)


@case
def error_survived(folder: Path) -> None:
    """An error stands last in the log of errors; the recording says that all went on, to 0."""
    before = traced(folder / "strace.txt", "write,process")
    alone(folder, "unsent", log="out.log", errors="err.log", before=before)


@case
def error_survived_then_raised(folder: Path) -> None:
    """The same, and an error behind it that ends the program."""
    before = traced(folder / "strace.txt", "write,process")
    alone(folder, "unsent-raise", log="out.log", errors="err.log", before=before)


@case
def helper_first(folder: Path) -> None:
    """A shell's script runs a program that crashes, and goes on to one that does well."""
    (folder / "go.sh").write_text(f"{sys.executable} {ALONE} segv\n{sys.executable} {ALONE}\n")
    with (folder / "train.log").open("wb") as out:
        subprocess.run(
            ["bash", "go.sh"], cwd=folder, stdout=out, stderr=subprocess.STDOUT, env=ENV, check=True
        )
    (folder / "go.sh").unlink()
    reported(folder)


@case
def alone_worker_memory(folder: Path) -> None:
    """The kernel killed a DataLoader worker; the log has its pid and nothing of memory."""
    alone(folder, "worker-kill")
    said = (folder / "train.log").read_text()
    pid = re.findall(r"worker \(pid\(?s?\)? ?(\d+)\)", said)[0]
    (folder / "dmesg.txt").write_text(_MEMORY.format(at="11", pid=pid))


@case
def mask_and_nan(folder: Path) -> None:
    """A mask is Inf in all checkpoints; the weights are NaN in the later ones."""
    (folder / "ckpt").mkdir()
    alone(folder, "nan", env={"CKPT": "ckpt"})


@case
def workers_locked(folder: Path) -> None:
    """Workers wait for a lock that a thread of their parent held when they were forked."""

    def look(job: subprocess.Popen[bytes]) -> None:
        until(lambda: "step 2:" in (folder / "train.log").read_text())
        time.sleep(3)
        children = subprocess.run(
            ["pgrep", "-P", str(job.pid)], capture_output=True, text=True, check=True
        )
        pids = [str(job.pid), *children.stdout.split()]
        (folder / "hang.json").write_text(postmortem("hang", *pids, "--json"))
        for pid in map(int, pids):
            os.kill(pid, signal.SIGKILL)

    alone(folder, "locked", after=look)


@case
def pod_killed_for_memory(folder: Path) -> None:
    """A pod's container was killed for memory and started again; both logs only stop."""
    for log in ("trainer-0-previous.log", "trainer-0.log"):
        alone(folder, log=log, env={"PAUSE": "1"}, after=_kill_at_step(folder, 2, log))
    (folder / "describe-pod.txt").write_text(_POD)
