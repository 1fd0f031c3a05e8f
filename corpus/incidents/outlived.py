"""Incidents of which a part was outlived: a worker, a start, a slow rank; and their look-alikes."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from corpus.incidents.alone import alone
from corpus.incidents.joined import SLOW
from corpus.incidents.make import ENV, HERE, JOB, case, reported, torchrun
from corpus.incidents.peers import each
from corpus.incidents.silent import look_at_all, until

_POOL = HERE / "programs" / "pool.py"
_WORDS = HERE / "programs" / "words.py"


def _pooled(folder: Path, *words: str) -> None:
    with (folder / "features.log").open("wb") as out:
        subprocess.run(
            [sys.executable, str(_POOL), *words],
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=ENV,
            check=False,
        )
    (folder / "broken").unlink()
    reported(folder)


@case
def pool_began_anew(folder: Path) -> None:
    """A worker of a pool crashed, and the program began again, which went well."""
    _pooled(folder, "again")


@case
def pool_broke(folder: Path) -> None:
    """A worker of a pool crashed, and the program with it."""
    _pooled(folder)


def _starts(folder: Path, *faults: str) -> None:
    """Start a job again and again, all into one log."""
    said = b""
    for fault in faults:
        torchrun(folder, fault, program=JOB, log="train.log", more=SLOW)
        said += (folder / "train.log").read_bytes()
        time.sleep(2)
    (folder / "train.log").write_bytes(said)
    reported(folder)


@case
def crashed_then_well(folder: Path) -> None:
    """The first start crashed, and its core lies there; the second went well."""
    _starts(folder, "2=segv", "2=nothing")


@case
def raised_then_crashed(folder: Path) -> None:
    """The first start raised; the second crashed, and the core is of that."""
    _starts(folder, "0=value", "2=segv")


@case
def look_then_work(folder: Path) -> None:
    """Somebody looked while all waited for a slow rank; it came, and the job went on."""
    torchrun(folder, "1=slow", program=JOB, env={"SLOW": "25"}, after=look_at_all(folder, after=1))


@case
def other_version(folder: Path) -> None:
    """One rank has another version of the words, and another number of rows for that."""
    each(folder, program=_WORDS, env={"WORDS": "2.1.0,2.2.0,2.1.0"})


@case
def same_version(folder: Path) -> None:
    """One rank has another number of rows; the versions are alike."""
    each(folder, program=_WORDS, env={"WORDS": "2.1.0,2.1.0,2.1.0", "ROWS": "1"})


@case
def watched_and_ended(folder: Path) -> None:
    """strace was attached, to all threads, when another process ended the program by SIGTERM."""

    def end(job: subprocess.Popen[bytes]) -> None:
        until(lambda: "step 2" in (folder / "train.log").read_text())
        words = ["strace", "-f", "-tt", "-p", str(job.pid), "-o", str(folder / "calls.txt")]
        look = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        until(lambda: (folder / "calls.txt").exists() and (folder / "calls.txt").stat().st_size > 0)
        time.sleep(1)
        kill = f"import os; os.kill({job.pid}, {int(signal.SIGTERM)})"
        subprocess.run([sys.executable, "-c", kill], env=ENV, check=True)
        job.wait()
        look.wait()

    alone(folder, env={"PAUSE": "2", "OMP_NUM_THREADS": "4"}, after=end)
