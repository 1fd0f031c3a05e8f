"""Incidents of what takes long, or was started again: none of it is a failure by itself."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

from corpus.incidents.make import ENV, case, full_disk, torchrun, traced
from corpus.incidents.silent import free_port, until
from corpus.incidents.strangers import PRETRAIN, run


@case
def busy_and_log_missing(folder: Path) -> None:
    """Rank 0 is busy for longer than the others wait; the log of rank 2 is not there."""
    place = {"WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    jobs = []
    for rank in range(4):
        with (folder / f"train.{rank}.txt").open("wb") as out:
            env = {**ENV, **place, "RANK": str(rank), "TIMEOUT": "15", "BUSY": "35"}
            words = [sys.executable, str(PRETRAIN), "0=busy"]
            jobs.append(subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=env))
    for job in jobs:
        job.wait(timeout=120)
    (folder / "train.2.txt").unlink()


@case
def recorders_of_slow_moment(folder: Path) -> None:
    """Flight recorders while one rank was busy; the job came to its end behind them."""
    env = {"TORCH_FR_BUFFER_SIZE": "2000", "FLIGHT": "25", "BUSY": "45"}
    run(folder, "run.log", "1=busy", env=env)
    for path in [*folder.glob("fr_*")]:  # without frames, whose paths are of this machine
        changed, dump = path.stat().st_mtime_ns, pickle.loads(path.read_bytes())
        dump["entries"] = [{**entry, "frames": []} for entry in dump["entries"]]
        path.unlink()
        path = path.with_suffix(".pickle")
        path.write_bytes(pickle.dumps(dump, protocol=2))
        os.utime(path, ns=(changed, changed))


@case
def set_aside(folder: Path) -> None:
    """The log of a start that failed, which logrotate renamed; the next start did well."""
    run(folder, "train.log.1", "1=value")
    old = time.time() - 3600
    os.utime(folder / "train.log.1", (old, old))
    run(folder, "train.log", "0=retry")


@case
def signalled_and_again(folder: Path) -> None:
    """A signal to the launcher ended a job; the next start, in the same file, did well."""
    log = folder / "nohup.out"

    def stop(job: subprocess.Popen[bytes]) -> None:
        until(lambda: "step 4/" in log.read_text())
        job.send_signal(signal.SIGTERM)

    run(folder, log.name, env={"STEPS": "4000"}, ranks=2, after=stop)
    run(folder, "again", ranks=2)
    log.write_text(log.read_text() + (folder / "again").read_text())
    (folder / "again").unlink()


@case
def full_disk_recorded(folder: Path) -> None:
    """Nothing but the recording of a job that a full disk ended."""
    with full_disk() as place:
        calls = traced(folder / "launch.strace", "write,openat,exit_group,process")
        torchrun(folder, "disk", "1", env={"CKPT": str(place)}, before=calls)
    (folder / "job.log").unlink()
