"""Where this process stands: rank, host, and a name by which others can see whether it lives."""

import os
import socket
import sys
from typing import Any

from postmortem.records import record


@record
class Place:
    """This process among the ranks of its job."""

    rank: int
    world_size: int
    host: str
    here: int
    """How many of the ranks run on this host; 0 where no variable says it."""

    @property
    def prefix(self) -> str:
        """``[node3:12]``, before what this rank prints."""
        return f"[{self.host}:{self.rank}]"


def job() -> str | None:
    """Return the id of the job that this process is of."""
    from postmortem.readers.launcher import find_job

    found = find_job(os.environ)
    return found[1] if found is not None else None


def place() -> Place:
    """Return rank and number of ranks, by PyTorch or else by the launcher's variables."""
    from postmortem.readers.launcher import find_placement

    found = find_placement(os.environ)
    rank, size = found.rank or 0, found.world_size or 1
    group = distributed()
    if group is not None:
        rank, size = int(group.get_rank()), int(group.get_world_size())
    return Place(rank, max(size, rank + 1), host_name(), _ranks_here())


def host_name() -> str:
    """Return the machine's name without its domain."""
    return socket.gethostname().partition(".")[0] or "localhost"


def distributed() -> Any:
    """Return torch.distributed where a process group exists, else None; never imports PyTorch."""
    module = sys.modules.get("torch.distributed")
    if module is None or not module.is_available() or not module.is_initialized():
        return None
    return module


def _ranks_here() -> int:
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"):
        if (text := os.environ.get(name, "")).isdecimal():
            return int(text)
    nodes = os.environ.get("SLURM_STEP_NUM_NODES", os.environ.get("SLURM_NNODES", ""))
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", os.environ.get("SLURM_NTASKS", ""))
    return int(tasks) if nodes == "1" and tasks.isdecimal() else 0


def identity(pid: int | None = None) -> str:
    """Return what tells this process from all others, for `is_gone`."""
    number = os.getpid() if pid is None else pid
    return f"{_boot()} {_namespace()} {number} {started(number)}"


def is_gone(who: str) -> bool | None:
    """Return whether a process has ended; None where it cannot be seen from here."""
    parts = who.split()
    if len(parts) != 4 or parts[:2] != [_boot(), _namespace()] or not parts[2].isdecimal():
        return None
    return started(int(parts[2])) != parts[3]


def started(pid: int) -> str:
    """Return when a process began, in the kernel's ticks; ``"-"`` where it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  pathlib costs 10 ms
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return "-"
    return "-" if len(fields) < 20 or fields[0] in (b"Z", b"X") else fields[19].decode("ascii")


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        return host_name()


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return "-"
