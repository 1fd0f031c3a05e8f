"""Incidents laid into several folders and forms: earlier starts, tables, a shell's UTF-16."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from corpus.incidents.make import ENV, JOB, case
from corpus.incidents.silent import free_port, until
from corpus.incidents.strangers import PRETRAIN, run

_PLAIN = ("--tee", "0")
"""Lines without torchrun's names of ranks: PyTorch names them in errors alone."""
_CANCELLED = "slurmstepd: error: *** JOB 4471 ON n{} CANCELLED AT {} DUE TO PREEMPTION ***\n"
_DAY = 86_400.0


def _set_back(path: Path, seconds: float) -> None:
    changed = path.stat().st_mtime - seconds
    os.utime(path, (changed, changed))


def _ranks(folder: Path, program: Path, *words: str) -> list[subprocess.Popen[bytes]]:
    """Start two ranks, each with a log of its own in a folder."""
    folder.mkdir(exist_ok=True)
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    jobs = []
    for rank in range(2):
        with (folder / f"rank{rank}.log").open("wb") as out:
            env = {**ENV, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            command = [sys.executable, str(program), *words]
            jobs.append(
                subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env=env)
            )
    return jobs


@case
def days_apart(folder: Path) -> None:
    """Two starts within a minute, in folders called after days; the second one did well."""
    for day, words in (("2026-11-20", ["1=value"]), ("2026-11-21", [])):
        for job in _ranks(folder / day, PRETRAIN, *words):
            job.wait(timeout=180)


@case
def lock_recorded(folder: Path) -> None:
    """Rank 1 waits for a file's lock that no rank holds; each was looked at by strace for a while.

    The logs only stop.
    """
    with (folder / "shards.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        jobs = _ranks(folder, JOB, "1=outsider")
        until(lambda: "waiting for the shard" in (folder / "rank1.log").read_text())
        time.sleep(2)
        for rank, job in enumerate(jobs):
            words = ["timeout", "2", "strace", "-f", "-p", str(job.pid)]
            subprocess.run([*words, "-o", str(folder / f"rank{rank}.strace")], check=False)
        for job in jobs:
            job.kill()


@case
def preempted_twice(folder: Path) -> None:
    """A job that Slurm put back twice, in one file; the third start fails by itself."""
    log = folder / "slurm-4471.out"

    def stop(job: subprocess.Popen[bytes]) -> None:
        until(lambda: "step 4/" in (folder / "part").read_text())
        job.send_signal(signal.SIGTERM)

    written = ""
    for turn in range(3):
        written += f"== start {turn} on n{turn + 3} at {time.strftime('%Y-%m-%dT%H:%M:%S')}\n"
        if turn < 2:
            run(folder, "part", env={"STEPS": "4000"}, ranks=2, more=_PLAIN, after=stop)
        else:
            run(folder, "part", "1=value", ranks=2, more=_PLAIN)
        written += (folder / "part").read_text()
        if turn < 2:
            written += _CANCELLED.format(turn + 3, time.strftime("%Y-%m-%dT%H:%M:%S"))
    log.write_text(written)
    (folder / "part").unlink()


@case
def folders_of_days(folder: Path) -> None:
    """Two starts in folders of their own, a day apart; the second did well."""
    for name in ("run_1", "run_2"):
        (folder / name).mkdir()
    run(folder / "run_1", "train.log", "0=value", ranks=2, more=_PLAIN)
    run(folder / "run_2", "train.log", ranks=2, more=_PLAIN)
    _set_back(folder / "run_1" / "train.log", _DAY)
    (folder / "latest").symlink_to("run_2")


@case
def hung_log_is_older(folder: Path) -> None:
    """The log of the rank that hangs was written last long before the others gave up."""
    place = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    jobs = []
    for rank in range(3):
        with (folder / f"log.{rank}").open("wb") as out:
            env = {**ENV, **place, "RANK": str(rank), "TIMEOUT": "15"}
            words = [sys.executable, str(PRETRAIN), "0=read"]
            jobs.append(subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=env))
    for job in jobs[1:]:
        job.wait(timeout=120)
    jobs[0].kill()


@case
def table_says_failed(folder: Path) -> None:
    """The log of one rank, which did well, and the scheduler's table, which says that it failed."""
    run(folder, "train.log", ranks=1, more=_PLAIN)
    (folder / "sacct.csv").write_text(
        "JobID|JobName|State|ExitCode|NodeList\n"
        "88112|pretrain|FAILED|1:0|n[4-5]\n"
        "88112.0|python|FAILED|1:0|n[4-5]\n"
    )


@case
def sent_by_another(folder: Path) -> None:
    """Somebody sends one rank a SIGTERM; its launcher tells the other one to end."""

    def send(job: subprocess.Popen[bytes]) -> None:
        until(lambda: "step 4/" in (folder / "nohup.out").read_text())
        found = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, check=True)
        for pid in map(int, found.stdout.split()):
            if b"\0RANK=1\0" in Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(pid, signal.SIGTERM)

    run(folder, "nohup.out", env={"STEPS": "4000"}, ranks=2, more=_PLAIN, after=send)


@case
def before_in_old(folder: Path) -> None:
    """What prepares the data failed, and no rank was started; the start before lies in a folder."""
    (folder / "old").mkdir()
    run(folder / "old", "train.log", "1=value", ranks=2, more=_PLAIN)
    _set_back(folder / "old" / "train.log", 6 * _DAY)
    (folder / "prepare.py").write_text(
        "import os\n\n\ndef manifest(root):\n    return sorted(os.listdir(root))\n\n\n"
        'print("building the manifest")\nprint(len(manifest("/data/clips_v3")))\n'
    )
    with (folder / "job.5112.log").open("wb") as out:
        words = [sys.executable, str(folder / "prepare.py")]
        subprocess.run(words, stdout=out, stderr=subprocess.STDOUT, env=ENV, check=False)


_MAIN = '{0}:   File "/job/train.py", line 52, in main\n{0}:     loss.backward()\n'
_LOST = (
    "{0}: [rank{0}]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, remote "
    "process exited or there was a network error, NCCL version 2.21.5\n"
)
_XID = "Nov 28 13:01:{} node7 kernel: NVRM: Xid (PCI:0000:9b:00): {}\n"
_GPU = (
    "GPU 00000000:{}:00.0\n    Product Name                          : NVIDIA H100 80GB HBM3\n"
    "    ECC Errors\n        Volatile\n            DRAM Uncorrectable            : {}\n"
    "    Remapped Rows\n        Pending                           : {}\n"
)


@case
def row_of_memory(folder: Path) -> None:
    """A row of a GPU's memory is bad; nvidia-smi's output is in UTF-16. Written, not recorded."""
    text = "".join(f"0: step {n} loss 2.{n}\n" for n in range(10, 30))
    text += "2: Traceback (most recent call last):\n" + _MAIN.format(2)
    text += "2: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    text += "".join(_LOST.format(rank) for rank in (0, 1, 3))
    text += "srun: error: node7: task 2: Exited with exit code 1\n"
    text += "srun: error: node7: tasks 0-1,3: Exited with exit code 1\n"
    (folder / "large-771830.out").write_text(text)
    said = (
        "48, pid='<unknown>', name=<unknown>, DBE (double bit error) ECC Error detected",
        "63, pid=41123, name=python3, Row Remapper: New row (0xa31f2) marked for remapping, reset "
        "gpu to activate.",
        "94, pid=41123, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
    )
    (folder / "journal.txt").write_text("".join(map(_XID.format, ("12", "12", "13"), said)))
    gpus = (("0F", 0, "No"), ("2A", 0, "No"), ("9B", 2, "Yes"), ("DA", 0, "No"))
    asked = "==============NVSMI LOG==============\n\nAttached GPUs : 4\n"
    asked += "".join(_GPU.format(*one) for one in gpus)
    (folder / "smi-q.txt").write_text(asked, encoding="utf-16")
