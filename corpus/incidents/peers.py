"""Incidents of which the peers speak, and the culprit does not, or elsewhere: for make.py."""

import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from corpus.incidents.joined import SLOW
from corpus.incidents.make import (
    ENV,
    HERE,
    JOB,
    case,
    full_disk,
    neutral,
    postmortem,
    reported,
    torchrun,
    traced,
)
from corpus.incidents.silent import RANKS, free_port, look_at_all, ranks_pids, until

RING = HERE / "programs" / "ring.py"
_PYSPY = os.environ.get("PYSPY", "py-spy")
_NFS = """\
Nov 20 10:00:{at} node1 kernel: nfs: server filer2 not responding, still trying
Nov 20 10:00:{end} node1 kernel: nfs: server filer2 OK
"""
_POD = """\
Name:             trainer-2
Namespace:        research
Priority:         0
Service Account:  default
Node:             gpu-17/10.0.4.17
Start Time:       Fri, 20 Nov 2026 10:00:00 +0000
Labels:           job-name=trainer
Status:           Failed
Reason:           Evicted
Message:          The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, \
available: 9Gi. Container trainer was using 212Gi, request is 0, has larger consumption of \
ephemeral-storage.
IP:               10.1.7.44
Containers:
  trainer:
    Image:         registry.example/trainer:12
    Port:          <none>
    State:          Terminated
      Reason:       Error
      Exit Code:    137
    Ready:          False
    Restart Count:  0
    Environment:
      RANK:        2
      WORLD_SIZE:  3
Conditions:
  Type               Status
  DisruptionTarget   True
  Ready              False
Events:
  Type     Reason               Age   From     Message
  ----     ------               ----  ----     -------
  Normal   Scheduled            14m   default  Successfully assigned research/trainer-2 to gpu-17
  Warning  Evicted              62s   kubelet  The node was low on resource: ephemeral-storage.
  Normal   Killing              62s   kubelet  Stopping container trainer
"""
_SHELL = """\
#!/bin/bash
{python} -m torch.distributed.run --nproc-per-node 3 --tee 3 {job} &
echo $! > launcher.pid
wait $!
echo "training ended with code $?"
"""


def each(
    folder: Path,
    *words: str,
    program: Path = RING,
    names: str = "rank{}.out",
    env: dict[str, str] | None = None,
    after: Callable[[dict[int, int]], None] | None = None,
) -> None:
    """Run the ranks without a launcher, each with a log of its own."""
    port, jobs = free_port(), {}
    for rank in RANKS:
        place = {"RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank)}
        place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        with (folder / names.format(rank)).open("ab") as out:
            jobs[rank] = subprocess.Popen(
                [sys.executable, str(program), *words],
                cwd=folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=ENV | place | (env or {}),
            )
    if after is not None:
        after({rank: job.pid for rank, job in jobs.items()})
    for job in jobs.values():
        try:
            job.wait(timeout=60)
        except subprocess.TimeoutExpired:
            job.kill()


def _looked(folder: Path, after: float) -> Callable[[dict[int, int]], None]:
    def look(pids: dict[int, int]) -> None:
        until(lambda: "step 3 " in (folder / "rank0.out").read_text())
        time.sleep(after)
        (folder / "hang.json").write_text(postmortem("hang", *map(str, pids.values()), "--json"))

    return look


@case
def peer_closed_core(folder: Path) -> None:
    """Rank 2 crashed; the others tell of it in words of their own."""
    each(folder, "2=segv")
    reported(folder)


@case
def peer_late_stacks(folder: Path) -> None:
    """Rank 1 sleeps; the others give up waiting, in words of their own."""
    each(folder, "1=sleep", after=_looked(folder, 3))


@case
def runs_in_archive(folder: Path) -> None:
    """Two runs in one archive: the first failed, the second did well."""
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        torchrun(base, "1=raise", program=JOB, log="run1.log")
        time.sleep(6)
        torchrun(base, program=JOB, log="run2.log")
        neutral(base)
        with tarfile.open(folder / "logs.tar.gz", "w:gz") as tar:
            tar.add(base / "run1.log", "logs/run1.log")
            tar.add(base / "run2.log", "logs/run2.log")


@case
def file_server_came_back(folder: Path) -> None:
    """The kernel misses a file server for 12 s; the job, recorded, did well."""
    torchrun(folder, program=JOB, before=traced(folder / "strace.txt", "process"))
    (folder / "kern.log").write_text(_NFS.format(at="11", end="23"))


@case
def pod_evicted(folder: Path) -> None:
    """The pod of rank 2 was evicted; its log stops, and the others lost it."""

    def evict(pids: dict[int, int]) -> None:
        until(lambda: "step 3 " in (folder / "trainer-2.log").read_text())
        os.kill(pids[2], signal.SIGKILL)

    each(folder, program=JOB, names="trainer-{}.log", env={"PAUSE": "1"}, after=evict)
    (folder / "describe-pod.txt").write_text(_POD)


@case
def thread_and_stacks(folder: Path) -> None:
    """The thread that reads ahead died of an error, and the stacks tell who waits for it."""
    look = look_at_all(folder)
    torchrun(folder, "0=starved", program=JOB, env={"TIMEOUT": "25"}, after=look)


@case
def worker_aborted(folder: Path) -> None:
    """A worker of rank 1 calls abort(); that is no end of rank 1."""
    torchrun(folder, "1=worker-abort", program=JOB)
    reported(folder)


@case
def both_at_once(folder: Path) -> None:
    """Rank 0 raises, and rank 2 ends without a word in the same second."""
    torchrun(folder, "0=raise", "2=exit", program=JOB, more=SLOW)


@case
def local_nan(folder: Path) -> None:
    """Rank 2's own loss is nan first; the sum of all is so in the same step."""
    env = {"LOCAL": "1"}
    torchrun(folder, "2=local-nan", program=JOB, env=env)
    (folder / "last.pt").unlink(missing_ok=True)


def _with_ps(folder: Path) -> Callable[[dict[int, int]], None]:
    def look(pids: dict[int, int]) -> None:
        until(lambda: "step 2 " in (folder / "rank0.out").read_text())
        time.sleep(2)
        found = ",".join(map(str, pids.values()))
        for words, name in (
            (["ps", "-o", "pid,ppid,stat,wchan:20,etime,args", "-p", found], "ps.txt"),
        ):
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            (folder / name).write_text(done.stdout)

    return look


@case
def stopped_in_ps(folder: Path) -> None:
    """Somebody stopped rank 1, which only ps tells."""
    each(folder, "1=stop", program=JOB, env={"TIMEOUT": "15"}, after=_with_ps(folder))


def dumped(path: Path, pid: int) -> None:
    """Write where py-spy saw a process."""
    words = [_PYSPY, "dump", "--pid", str(pid)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.stdout:
        path.write_text(done.stdout)


@case
def worker_waits_pyspy(folder: Path) -> None:
    """A worker of rank 0 reads from a pipe that nobody writes to; py-spy looked at all."""

    def look(_: subprocess.Popen[bytes]) -> None:
        until(lambda: "step 2 " in (folder / "job.log").read_text())
        time.sleep(5)
        pids = dict(ranks_pids(folder))
        words = ["pgrep", "-P", str(pids[0])]
        children = subprocess.run(words, capture_output=True, text=True, check=False)
        named = {f"pyspy-rank{rank}.txt": pid for rank, pid in pids.items()}
        named |= {f"pyspy-{pid}.txt": int(pid) for pid in children.stdout.split()}
        for name, pid in named.items():
            dumped(folder / name, pid)

    torchrun(folder, "0=worker-waits", program=JOB, env={"TIMEOUT": "20"}, after=look)
    (folder / "rows.fifo").unlink()


@case
def launcher_killed(folder: Path) -> None:
    """Somebody killed the launcher; a shell says so, and no rank did anything."""
    (folder / "run.sh").write_text(_SHELL.format(python=sys.executable, job=JOB))
    with (folder / "job.log").open("wb") as out:
        job = subprocess.Popen(
            ["bash", "run.sh"],
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=ENV | {"PAUSE": "1"},
        )
        until(lambda: "step 2 " in (folder / "job.log").read_text())
        os.kill(int((folder / "launcher.pid").read_text()), signal.SIGKILL)
        job.wait(timeout=60)
        time.sleep(4)
    (folder / "launcher.pid").unlink()


@case
def two_starts_one_file(folder: Path) -> None:
    """Two starts wrote to one file, each rank with its name; nothing stands between them."""
    each(folder, "1=raise", names="all.log")
    time.sleep(6)
    each(folder, "2=raise", names="all.log")


@case
def disk_and_error(folder: Path) -> None:
    """Rank 1 has no room, and rank 2 a plain error: two culprits, recorded."""
    with full_disk() as place:
        torchrun(
            folder,
            *("1=disk", "2=value"),
            program=JOB,
            env={"CKPT": str(place)},
            more=SLOW,
            before=traced(folder / "strace.txt", "openat,write,process"),
        )


@case
def only_victims_and_core(folder: Path) -> None:
    """The log of rank 1 is lost; the core beside is of another program."""
    each(folder, "1=raise")
    (folder / "rank1.out").unlink()
    (folder / "sub").mkdir()
    subprocess.run(["sh", "-c", "kill -SEGV $$"], cwd=folder, check=False)
    reported(folder)
    (folder / "sub").rmdir()


@case
def run_folders(folder: Path) -> None:
    """Two runs of `postmortem run` in one folder: a crash yesterday, an error today."""
    for fault in ("1=segv", "2=raise"):
        words = [sys.executable, "-m", "postmortem", "run", "--", sys.executable, "-m"]
        words += ["torch.distributed.run", "--nproc-per-node", "3", "--tee", "3", str(JOB), fault]
        with (folder / "console.log").open("wb") as out:
            subprocess.run(
                words, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env=ENV, check=False
            )
        time.sleep(3)
    reported(folder)
