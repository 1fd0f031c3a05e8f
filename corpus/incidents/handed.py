"""Incidents as people hand them on: what they saw, noted and killed, beside a log: for make.py.

The lines of a kernel are written with what the run left.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from corpus.incidents.joined import killed_by_kernel
from corpus.incidents.make import ENV, case, postmortem, reported
from corpus.incidents.silent import until
from corpus.incidents.strangers import PRETRAIN, run

_LONG = {"STEPS": "4000"}


def _children(job: subprocess.Popen[bytes]) -> list[int]:
    words = ["pgrep", "-P", str(job.pid)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return sorted(map(int, done.stdout.split()))


def _looked(
    log: Path, look: Callable[[subprocess.Popen[bytes], list[int]], None], *, last: int = 0
) -> Callable[[subprocess.Popen[bytes]], None]:
    """Return what looks at a job that hangs, and kills all of it, or sends its launcher `last`."""

    def after(job: subprocess.Popen[bytes]) -> None:
        until(lambda: "step 4/" in log.read_text())
        time.sleep(4)
        pids = _children(job)
        look(job, pids)
        if last:
            job.send_signal(last)
            return
        for pid in (job.pid, *pids):
            os.kill(pid, signal.SIGKILL)

    return after


@case
def stopped_and_killed(folder: Path) -> None:
    """A log that only ends, and ps, which shows one process stopped."""

    def look(_: subprocess.Popen[bytes], pids: list[int]) -> None:
        words = ["ps", "-o", "pid,ppid,stat,wchan:24,etime,cmd", "-p", ",".join(map(str, pids))]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        (folder / "ps.txt").write_text(done.stdout)

    run(folder, "run.log", "1=stop", env=_LONG, after=_looked(folder / "run.log", look))


@case
def looks_in_notes(folder: Path) -> None:
    """One file has what hang printed of each rank, between a person's own lines."""

    def look(_: subprocess.Popen[bytes], pids: list[int]) -> None:
        with (folder / "notes.txt").open("w") as notes:
            notes.write("looked at it before I killed it\n\n")
            for pid in pids:
                notes.write(f"$ postmortem hang {pid}\n{postmortem('hang', str(pid))}\n")

    log = folder / "train.log"
    run(folder, log.name, "2=lock", env=_LONG, after=_looked(log, look, last=signal.SIGTERM))


@case
def interrupted(folder: Path) -> None:
    """Ctrl-C ended a job that hung: tracebacks tell where everybody was."""
    log = folder / "term.log"
    after = _looked(log, lambda *_: None, last=signal.SIGINT)
    run(folder, log.name, "1=read", env=_LONG, ranks=2, after=after)


@case
def stacks_of_some(folder: Path) -> None:
    """Two of three ranks wrote their stacks into the log at a signal, and all were killed."""

    def look(_: subprocess.Popen[bytes], pids: list[int]) -> None:
        for pid in pids[:2]:
            os.kill(pid, signal.SIGUSR1)
        time.sleep(1)

    run(folder, "slurm-99.out", "1=spin", env=_LONG, after=_looked(folder / "slurm-99.out", look))


@case
def neighbours_kill(folder: Path) -> None:
    """A job that did well; meanwhile the kernel killed a Python process of somebody else."""
    run(folder, "train.log", "1=retry", ranks=2)
    killed_by_kernel(folder / "dmesg.txt", "88123", "python")


@case
def list_missing(folder: Path) -> None:
    """Two nodes; of the one whose rank was killed the log ends before its launcher's list."""
    jobs = []
    for node in (0, 1):
        words = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--tee", "3"]
        words += ["--node-rank", str(node), "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
        words += ["--master-port", "29517", str(PRETRAIN), "2=kill"]
        with (folder / f"gpu-{'ab'[node]}.log").open("wb") as out:
            more = {**ENV, "GLOO_SOCKET_IFNAME": "lo"}
            jobs.append(subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=more))
    for job in jobs:
        job.wait(timeout=90)
    cut = folder / "gpu-b.log"
    cut.write_text(re.split(r"(?m)^.*failed \(exitcode", cut.read_text())[0])


def _killed_by(number: int) -> Callable[[subprocess.Popen[bytes], list[int]], None]:
    def kill(_: subprocess.Popen[bytes], pids: list[int]) -> None:
        os.kill(pids[1], number)
        time.sleep(2)

    return kill


@case
def killed_for_core(folder: Path) -> None:
    """Rank 1 hangs; somebody ends it by SIGQUIT to have its core."""
    log = folder / "o.log"
    after = _looked(log, _killed_by(signal.SIGQUIT), last=signal.SIGCONT)
    run(folder, log.name, "1=read", env=_LONG, after=after)
    reported(folder)


@case
def aborted_below_handler(folder: Path) -> None:
    """Rank 1 hangs; somebody sends SIGABRT, which faulthandler catches and raises again."""
    log = folder / "job.log"
    after = _looked(log, _killed_by(signal.SIGABRT), last=signal.SIGCONT)
    run(folder, log.name, "1=read", env={**_LONG, "PYTHONFAULTHANDLER": "1"}, after=after)
    reported(folder)


@case
def time_was_over(folder: Path) -> None:
    """`timeout -v` ended a job of which one rank counted on."""
    words = ("timeout", "-v", "25")
    run(folder, "launch.out", "1=spin", env=_LONG, before=words)
    lines = (folder / "launch.out").read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith("timeout: "))
    (folder / "launch.out").write_text("".join(lines[: at + 1]))


@case
def aborted_as_they_waited(folder: Path) -> None:
    """Rank 1 counts on and is killed; the others are sent SIGABRT by somebody, for their stacks."""
    more = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533", "WORLD_SIZE": "3"}
    more |= {**ENV, **_LONG, "GLOO_SOCKET_IFNAME": "lo", "PYTHONFAULTHANDLER": "1"}
    jobs = []
    for rank in range(3):
        with (folder / f"rank{rank}.log").open("wb") as out:
            words = [sys.executable, str(PRETRAIN), "1=spin"]
            one = {**more, "RANK": str(rank)}
            jobs.append(subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=one))
    until(lambda: "step 4/" in (folder / "rank0.log").read_text())
    time.sleep(4)
    for rank, number in ((0, signal.SIGABRT), (2, signal.SIGABRT), (1, signal.SIGKILL)):
        jobs[rank].send_signal(number)
    for job in jobs:
        job.wait(timeout=60)
