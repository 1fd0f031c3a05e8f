"""Incidents whose culprit says nothing, or is not the rank that says most: for make.py."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from corpus.incidents.make import ENV, JOB, case, postmortem, reported, torchrun

RANKS = range(3)


def until(done: Callable[[], bool], seconds: int = 60) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit("the run did not come to where it was to be looked at")
        time.sleep(0.3)


def ranks_pids(folder: Path, log: str = "job.log") -> dict[int, int]:
    found = re.findall(r"rank (\d+) of \d+ is pid (\d+)", (folder / log).read_text())
    return {int(rank): int(pid) for rank, pid in found}


def _children(pid: int) -> list[int]:
    words = ["pgrep", "-P", str(pid)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def look_at_all(folder: Path, after: float = 6) -> Callable[[subprocess.Popen[bytes]], None]:
    """Return what looks at the stacks of all ranks and their children, once the job stands."""

    def look(_: subprocess.Popen[bytes]) -> None:
        until(lambda: (folder / "job.log").read_text().count("step 2 ") > 0)
        time.sleep(after)
        pids = list(ranks_pids(folder).values())
        pids += [child for pid in pids for child in _children(pid)]
        (folder / "hang.json").write_text(postmortem("hang", *map(str, pids), "--json"))

    return look


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@case
def never_joined(folder: Path) -> None:
    """The job was told of four ranks, and three were started."""
    port = free_port()
    jobs = []
    for rank in RANKS:
        place = {"RANK": str(rank), "WORLD_SIZE": "4"}
        place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TIMEOUT": "12"}
        with (folder / f"rank{rank}.out").open("wb") as out:
            words = [sys.executable, str(JOB)]
            jobs.append(
                subprocess.Popen(
                    words, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env=ENV | place
                )
            )
    for job in jobs:
        job.wait(timeout=90)


@case
def swallowed(folder: Path) -> None:
    """Rank 1 caught an error and left out the collective of that step: it is one step ahead."""
    env = {"TIMEOUT": "25", "FLIGHT": "15", "TORCH_FR_BUFFER_SIZE": "2000"}
    torchrun(folder, "1=swallow", program=JOB, env=env)


@case
def pipe_kept_open(folder: Path) -> None:
    """Rank 0 reads from a script that has ended; what the script started keeps the pipe."""
    torchrun(folder, "0=evaluate", program=JOB, env={"TIMEOUT": "25"}, after=look_at_all(folder))


@case
def stopped(folder: Path) -> None:
    """Somebody stopped rank 1 (SIGSTOP); torchrun kills it in the end."""
    torchrun(folder, "1=stop", program=JOB, env={"TIMEOUT": "20"}, after=look_at_all(folder))


@case
def other_node(folder: Path) -> None:
    """Of two nodes the log of the one that failed is missing."""
    port = free_port()
    jobs = []
    for node in range(2):
        words = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--tee", "3"]
        words += ["--node-rank", str(node), "--nproc-per-node", "2", "--master-port", port]
        words += ["--master-addr", "127.0.0.1", str(JOB), "3=raise"]
        with (folder / f"node{node}.log").open("wb") as out:
            jobs.append(
                subprocess.Popen(words, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env=ENV)
            )
    for job in jobs:
        job.wait(timeout=120)
    (folder / "node1.log").unlink()


@case
def crossed_locks(folder: Path) -> None:
    """Two threads of rank 1 hold what the other one waits for."""
    torchrun(folder, "1=crossed", program=JOB, env={"TIMEOUT": "25"}, after=look_at_all(folder))


@case
def deep_recursion(folder: Path) -> None:
    """Rank 2 uses up its stack; the core tells that it is no bad pointer."""
    torchrun(folder, "2=deep", program=JOB)
    reported(folder)


@case
def time_limit_then_done(folder: Path) -> None:
    """The first run reached its time limit, the second one did well."""

    def stop(job: subprocess.Popen[bytes]) -> None:
        until(lambda: "step 2 " in (folder / "slurm-4410.out").read_text())
        job.send_signal(signal.SIGTERM)

    torchrun(folder, program=JOB, log="slurm-4410.out", env={"PAUSE": "2"}, after=stop)
    with (folder / "slurm-4410.out").open("a") as out:
        out.write(
            "slurmstepd: error: *** JOB 4410 ON node7 CANCELLED AT 2026-11-20T12:00:21 "
            "DUE TO TIME LIMIT ***\n"
        )
    torchrun(folder, program=JOB, log="slurm-4411.out")
