"""The word of who watched: how a process or a whole job ended, told by somebody else."""

from __future__ import annotations

from enum import StrEnum

from postmortem.facts.last_lines import LastLine, Placed
from postmortem.records import record
from postmortem.text import counted


class Stop(StrEnum):
    """What a scheduler says it stopped a job for."""

    TIME = "time"
    PREEMPTED = "preempted"
    MEMORY = "memory"
    NODE = "node"
    REQUEUED = "requeued"
    TASK = "task"
    LIMIT = "limit"


_WINDOWS = {
    0xC0000005: "0xC0000005: an access violation",
    0xC000001D: "0xC000001D: an illegal instruction",
    0xC00000FD: "0xC00000FD: a stack overflow",
    0xC0000135: "0xC0000135: a DLL was not found",
    0xC000013A: "0xC000013A: Ctrl-C",
    0xC0000374: "0xC0000374: a damaged heap",
    0xC0000409: "0xC0000409: abort()",
}
"""What Windows gives as the exit code of a process that it ended."""
RUN = "postmortem run"
"""The launcher whose word is of the ranks, or of the program itself where it has none."""
RECORD = "the job's record"
"""What a cloud, a scheduler or a tracker keeps of a job: no line of the job stands beside it."""
OF_COMMANDS = (
    *("time", "make", "DVC", "docker", "Databricks", "PBS", "Grid Engine", "its parent"),
    RECORD,
)
"""Who runs one command, and tells of its end what a shell below may have told before."""
TRACKER = "wandb"
"""Who notes how the program ended that it ran in, in a log of its own work."""


@record
class LogExit(Placed):
    """How a process ended, or all of a job, as who watched says: a launcher, a shell, a kernel."""

    file: str
    line: int
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    code: int | None = None
    """Of exit(); None for a signal."""
    signal: str | None = None
    died: bool = False
    """It did not end well, and by what is not told."""
    launcher: str = "torchrun"
    of_launcher: bool = False
    """It is the launcher of the job itself that ended so, as the shell's line names it."""
    blamed: bool = False
    """torchrun calls it the root cause: the failure that its agent saw first."""
    stopped: bool = False
    """Its launcher had begun to end all others when it died of SIGTERM or SIGKILL."""
    memory: bool = False
    """Who watched it says that the memory it was given was used up."""
    evicted: str = ""
    """Of a pod that was evicted, for what; no process of it lived on."""
    unplaced: str = ""
    """Of a pod for which there is no node, why not; nothing of it has run."""
    refused: bool = False
    """Such a pod had a node, which did not take it."""
    host: str | None = None
    writer: int | None = None
    attempt: int | None = None
    time: float | None = None
    """Seconds since 1970 as the launcher's clock shows them, of no time zone."""
    output: str | None = None
    """The file that its launcher says it wrote to."""
    process: str = ""  # its name, where it is known by that alone
    times: int = 1
    """How many processes ended so, where one line, or one shell, tells of several."""
    of_job: bool = False
    """Somebody ended the whole job."""
    why: Stop | None = None
    """What for, where who ended it says so."""
    text: str = ""
    """The line, of what stands in `RankLogs.words`."""
    above: tuple[LastLine, ...] = ()
    """Lines right above, without a name, that may be its own, where nothing else is of it."""

    @property
    def is_bad(self) -> bool:
        """Whether it did not end by itself, and well."""
        return bool(self.code or self.signal or self.evicted or self.unplaced or self.died)

    def is_of(self, other: LogExit) -> bool:
        """Whether it may be the end of the same process, of which another tells, too."""
        return other.is_bad and self.signal is not None and self.signal == other.signal

    @property
    def exited(self) -> str:
        """``exited with 1``, and what the code means where Windows ended the process."""
        if self.code is None:
            return "died"
        means = _WINDOWS.get(self.code % (1 << 32))
        return f"exited with {self.code}" + (f" ({means})" if means else "")

    @property
    def witness(self) -> str:
        """Who says how it ended."""
        return {"shell": "the shell", "kubernetes": "Kubernetes"}.get(self.launcher, self.launcher)

    @property
    def words(self) -> str:
        """``process 4711 on node1 was killed by SIGKILL``."""
        there = f" on {self.host}" if self.host else ""
        if self.evicted:
            return f"pod {self.host or 'without a name'} was evicted: {self.evicted}"
        if self.unplaced:
            how = "was refused by its node" if self.refused else "has no node"
            return f"pod {self.host or 'without a name'} {how}: {self.unplaced}"
        if self.launcher == "raylet":
            return f"{counted(self.times, 'worker')}{there} killed by Ray's memory monitor"
        if self.times > 1:
            return f"{counted(self.times, 'program')} were killed by {self.signal}"
        how = f"was killed by {self.signal}" if self.signal else self.exited
        how += ", out of memory" if self.memory else ""
        who = "the job" if self.launcher == "Slurm" else "a process"
        pid = f"process {self.pid}" if self.pid else self.process or who
        if self.rank is None and self.local_rank is not None:
            pid = f"local rank {self.local_rank} ({pid})"
        if self.launcher == RUN and self.rank is None:
            pid = f"the program (pid {self.pid})"
        pid = f"the job's launcher ({pid})" if self.of_launcher else pid
        return f"{pid}{there} {how}"
