"""Incidents that are told by what lies beside the log: for make.py.

Another attempt, another process or another node has the cause; the log that one opens first has
its effect. The kernel's lines are written with the pids of the run.
"""

import fcntl
import gzip
import os
import re
import signal
import subprocess
from pathlib import Path

from corpus.incidents.joined import killed_by_kernel
from corpus.incidents.make import JOB, case, reported, torchrun, traced
from corpus.incidents.silent import look_at_all, ranks_pids, until


@case
def attempts_apart(folder: Path) -> None:
    """The kernel killed a rank of the first attempt; the second one failed by an error."""
    first = "attempt-1.log"

    def end(_: subprocess.Popen[bytes]) -> None:
        until(lambda: "step 2 " in (folder / first).read_text())
        os.kill(ranks_pids(folder, first)[2], signal.SIGKILL)

    torchrun(folder, program=JOB, log=first, env={"PAUSE": "1"}, after=end)
    killed_by_kernel(folder / "dmesg.txt", ranks_pids(folder, first)[2], "python")
    torchrun(folder, "1=raise", program=JOB, log="attempt-2.log")


@case
def file_limit_strace(folder: Path) -> None:
    """A limit on the size of files: the log has what PyTorch makes of it."""
    calls = traced(folder / "strace.txt", "openat,close,write,process")
    torchrun(folder, "1=limit", program=JOB, before=calls)


@case
def outsiders_lock(folder: Path) -> None:
    """Rank 2 waits for a file's lock that no rank holds."""
    with (folder / "shards.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        look = look_at_all(folder)
        torchrun(folder, "2=outsider", program=JOB, env={"TIMEOUT": "25"}, after=look)


@case
def starved(folder: Path) -> None:
    """The thread that reads ahead died of an error; its rank waits for it, the others for that."""
    torchrun(folder, "0=starved", program=JOB, env={"TIMEOUT": "15"})


@case
def other_collective(folder: Path) -> None:
    """Rank 2 gathers while the others reduce; torchrun calls another rank the first failure."""
    torchrun(folder, "2=gather", program=JOB, env={"TIMEOUT": "25"}, after=look_at_all(folder))


@case
def mapped_file_cut(folder: Path) -> None:
    """A mapped shard was cut while it was read."""
    torchrun(folder, "1=shrunk", program=JOB)
    reported(folder)
    (folder / "shard-00003.bin").unlink()


@case
def node_not_started(folder: Path) -> None:
    """The launcher of the second node cannot start; the first one waits in vain."""
    wait = "join_timeout=15,timeout=15,read_timeout=15"
    more = ("--nnodes", "2", "--node-rank", "0", "--rdzv-conf", wait)
    torchrun(folder, program=JOB, log="node0.log", more=more, seconds=60)
    done = subprocess.run(
        ["python3", "-I", "-S", "-c", "from torch.distributed.run import main"],
        capture_output=True,
        text=True,
        check=False,
    )
    (folder / "node1.log").write_text(done.stderr)


@case
def cut_archive(folder: Path) -> None:
    """A log that was compressed and copied in half: how it ended cannot be known."""
    torchrun(folder, program=JOB, env={"PAUSE": "0.02"})
    log = folder / "job.log"
    packed = gzip.compress(re.sub(r"(?m)^.*finished after.*\n", "", log.read_text()).encode())
    (folder / "job.log.gz").write_bytes(packed[: len(packed) * 2 // 3])
    log.unlink()
