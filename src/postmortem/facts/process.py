"""The process that died: who it was, how it was started, which rank of which job."""

from __future__ import annotations

from postmortem.records import record


@record
class Process:
    """Identity of one process; None and empty mean that the evidence does not say."""

    pid: int
    machine: str
    """``"x86_64"`` or ``"aarch64"``."""
    ppid: int | None = None
    uid: int | None = None
    command: str | None = None
    """The kernel's short name of the process (at most 15 bytes, `comm`)."""
    executable: str | None = None
    argv: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    """The environment when the process died (libc's ``environ``), else the one it started with."""
    env_is_current: bool = False
    """False: `env` is the environment at exec; changes through ``os.environ`` do not show."""
    initial_env: tuple[tuple[str, str], ...] = ()
    hostname: str | None = None
    crashed_at: float | None = None
    """Seconds since the epoch, where something beside the core tells."""
    python_version: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    launcher: str | None = None
    """Which launcher's variables gave the rank: ``"torchrun"``, ``"SLURM"``, ``"Open MPI"`` …"""
    role: str | None = None
    """The part of a child or a launcher (``"DataLoader worker"``); None for a plain program."""

    def variable(self, name: str) -> str | None:
        """Return the value of an environment variable, or None if it was not set."""
        return next((value for key, value in self.env if key == name), None)


@record
class SlimSource:
    """What a slim core (``postmortem core CORE --slim OUT``) was made from."""

    source_bytes: int
    source_expected_bytes: int
    """More than `size_bytes`: the original was cut off."""
    kept_bytes: int
    """Memory that the slim core holds."""
    lost_bytes: int = 0
    """Memory that found no room while the original streamed by; 0 where all was at hand."""


@record
class CoreFile:
    """How the core was written and how much of it is there."""

    path: str
    origin: str
    """``"kernel"`` (a crash), ``"gcore"`` (gdb, mostly of a live process) or ``"tool"`` (valgrind,
    createdump of .NET, minidump-2-core …)."""
    size_bytes: int
    expected_bytes: int
    """What the headers promise; more than `size_bytes` means that the core is cut."""
    slim: SlimSource | None = None
    """None: an ordinary core. In a slim one most of the memory is left out by design."""

    @property
    def truncated(self) -> bool:
        """Whether bytes that the headers promise are missing at the end."""
        return self.expected_bytes > self.size_bytes
