"""Incidents of a job that was begun again, or late, and of what a job that did well left."""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from corpus.incidents.make import ENV, JOB, case, neutral, torchrun, traced
from corpus.incidents.silent import free_port
from corpus.incidents.strangers import PRETRAIN, run

_TABLE = "JobID        JobName     Partition  State      ExitCode\n"
_CUTS = """\
import subprocess
for tile in range(4):
    cut = subprocess.Popen(["sleep", "9" if tile % 2 else "0"])
    try:
        cut.wait(timeout=1)
    except subprocess.TimeoutExpired:
        cut.kill()
        cut.wait()
print("4 tiles, 2 of them skipped")
"""
_RESUMES = """\
import os, sys
import torch
print("rank", os.environ["RANK"], "resumes")
state = torch.load(sys.argv[1])
"""


def _aged(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


@case
def attempts_in_folders(folder: Path) -> None:
    """Three attempts, a folder for each, end by one error, each time of another rank."""
    for number, rank in enumerate((1, 2, 0)):
        (folder / f"attempt_{number}").mkdir()
        run(folder, f"attempt_{number}/stdout", f"{rank}=value")
        _aged(folder / f"attempt_{number}" / "stdout", (3 - number) * 400)


@case
def rotated_and_packed(folder: Path) -> None:
    """The log of yesterday's run, which another rank ended, was renamed and packed."""
    for name, rank, age in (("train.log.1", 0, 86400.0), ("train.log", 1, 0.0)):
        run(folder, name, f"{rank}=value")
        _aged(folder / name, age)
    neutral(folder)
    packed = folder / "train.log.1.gz"
    packed.write_bytes(gzip.compress((folder / "train.log.1").read_bytes()))
    (folder / "train.log.1").unlink()
    _aged(packed, 86400.0)


@case
def came_too_late(folder: Path) -> None:
    """Rank 2 is started when the others have given up."""
    place = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    jobs: list[subprocess.Popen[bytes]] = []
    for rank in range(3):
        for job in jobs if rank == 2 else ():
            job.wait(timeout=120)
        with (folder / f"slot{rank}.out").open("wb") as out:
            env = {**ENV, **place, "RANK": str(rank), "TIMEOUT": "12"}
            words = [sys.executable, str(PRETRAIN)]
            jobs.append(subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=env))
    jobs[-1].wait(timeout=120)


@case
def ended_its_children(folder: Path) -> None:
    """The recording of a program that did well, and ended two of its children."""
    calls = traced(folder / "cuts.strace", "process,kill")
    with (folder / "cuts.out").open("wb") as out:
        subprocess.run([*calls, "python3", "-I", "-S", "-c", _CUTS], stdout=out, check=True)


@case
def array_and_table(folder: Path) -> None:
    """Three tasks of an array, of which one raised, and what sacct lists of them."""
    rows = ""
    for task in range(3):
        run(folder, f"fold_4400_{task}.out", *(["0=value"] if task == 1 else []), ranks=1)
        state = "FAILED     1:0" if task == 1 else "CANCELLED+ 0:0"
        rows += f"4400_{task}       fold        gpu        {state}\n"
    (folder / "sacct.txt").write_text(_TABLE + rows)


@case
def tried_below(folder: Path) -> None:
    """A try that failed lies in a folder below the one that did well; no line has a time."""
    for name, words, age in (("first_try/train.log", ["1=value"], 18000), ("train.log", [], 0)):
        log = folder / name
        log.parent.mkdir(exist_ok=True)
        torchrun(folder, *words, program=JOB, log=name)
        log.write_text(re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", "", log.read_text()))
        _aged(log, age)


@case
def tries_packed(folder: Path) -> None:
    """Two tries, each in an archive of its own; another rank ended each."""
    for number, rank in ((1, 0), (2, 1)):
        own = folder / f"try-{number}"
        own.mkdir()
        run(folder, f"{own.name}/train.log", f"{rank}=value", ranks=2)
        _aged(own / "train.log", (2 - number) * 600)
    neutral(folder)
    for own in sorted(folder.glob("try-*")):
        with tarfile.open(f"{own}.tar.gz", "w:gz") as tar:
            tar.add(own, own.name)
        shutil.rmtree(own)


@case
def read_what_was_cut(folder: Path) -> None:
    """All ranks read a checkpoint that is cut, of two that are there; no line names it."""
    torchrun(folder, program=PRETRAIN, ranks=1, log="before.log", env={"SAVE": str(folder)})
    (folder / "before.log").unlink()
    kept = sorted(folder.glob("*.pt"))[-2:]
    for path in folder.glob("*.pt"):
        if path not in kept:
            path.unlink()
    kept[-1].write_bytes(kept[-1].read_bytes()[:-700])
    program = folder / "resume.py"
    program.write_text(_RESUMES)
    torchrun(folder, str(kept[-1]), program=program, ranks=2)


@case
def killed_while_it_ran(folder: Path) -> None:
    """A log that stops at its work; early in it the kernel killed a process of somebody else's."""
    run(folder, "train.log", ranks=2, env={"STEPS": "40", "PAUSE": "0.3"})
    text = (folder / "train.log").read_text()
    (folder / "train.log").write_text("".join(x for x in text.splitlines(True) if " step " in x))
    stamp = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", text)
    assert stamp is not None
    at = time.strptime(stamp[0], "%Y-%m-%d %H:%M:%S")
    line = "Out of memory: Killed process 8812 (python3) total-vm:9kB, anon-rss:9kB, file-rss:0kB"
    text = f"[{time.strftime('%a %b %d %H:%M:%S %Y', at)}] {line}, shmem-rss:0kB, UID:0\n"
    (folder / "dmesg.txt").write_text(text)
