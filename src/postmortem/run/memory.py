"""A limit for the memory of a command and all that it starts, by whatever this machine has."""

import contextlib
import os
import shutil
from pathlib import Path

from postmortem.readers.mounts import mountinfo, mounts_in
from postmortem.records import record

_GROUPS = Path("/proc/self/cgroup")
_SYSTEMD = Path("/run/systemd/system")


@record
class MemoryLimit:
    """How the limit is had."""

    bytes: int
    how: str
    cgroup: str | None = None
    """A control group that the command is put into."""
    version: int = 2
    prefix: tuple[str, ...] = ()
    """What is put before the command instead."""

    def remove(self) -> None:
        """Remove the control group; what still runs in it keeps it."""
        if self.cgroup is not None:
            with contextlib.suppress(OSError):
                os.rmdir(self.cgroup)  # noqa: PTH106


class NoLimit(Exception):
    """The machine has no way to limit memory for us."""


def limit_memory(size: int) -> MemoryLimit:
    """Return a limit that is in place, for a command to be put into; raises NoLimit."""
    whys = []
    for way in (_by_version_2, _by_version_1, _by_systemd):
        try:
            return way(size)
        except OSError as error:
            whys.append(f"{way.__name__.removeprefix('_by_')}: {error.strerror or error}")
    raise NoLimit("; ".join(whys).replace("version_", "cgroup v"))


def _by_version_2(size: int) -> MemoryLimit:
    top, inner = _place("cgroup2", "")
    parent = top / inner
    controllers = (parent / "cgroup.subtree_control").read_text().split()
    if "memory" not in controllers:
        if "memory" not in (parent / "cgroup.controllers").read_text().split():
            raise OSError(0, "its group has no memory controller")
        (parent / "cgroup.subtree_control").write_text("+memory")
    path = parent / f"postmortem-{os.getpid()}"
    path.mkdir()
    try:
        (path / "memory.max").write_text(str(size))
        with contextlib.suppress(OSError):  # no swap, no file
            (path / "memory.swap.max").write_text("0")
    except OSError:
        path.rmdir()
        raise
    return MemoryLimit(size, "cgroup v2", str(path))


def _by_version_1(size: int) -> MemoryLimit:
    top, inner = _place("cgroup", "memory")
    path = top / inner / f"postmortem-{os.getpid()}"
    path.mkdir()
    try:
        (path / "memory.limit_in_bytes").write_text(str(size))
        with contextlib.suppress(OSError):
            (path / "memory.memsw.limit_in_bytes").write_text(str(size))
    except OSError:
        path.rmdir()
        raise
    return MemoryLimit(size, "cgroup v1", str(path), version=1)


def _by_systemd(size: int) -> MemoryLimit:
    program = shutil.which("systemd-run")
    if program is None or not _SYSTEMD.is_dir():
        raise OSError(0, "systemd does not run here")
    if os.geteuid() != 0 and not os.environ.get("XDG_RUNTIME_DIR"):
        raise OSError(0, "there is no session of systemd for this user")
    words = [program, "--scope", "--quiet", "--collect"]
    words += ["--user"] if os.geteuid() != 0 else []
    words += ["-p", f"MemoryMax={size}", "-p", "MemorySwapMax=0", "--"]
    return MemoryLimit(size, "systemd-run", prefix=tuple(words))


def _place(kind: str, controller: str) -> tuple[Path, str]:
    """Return where a hierarchy is mounted, and our group in it; raises OSError."""
    inner = None
    for row in _GROUPS.read_text().splitlines():
        _, names, path = row.split(":", 2)
        if controller in names.split(",") if controller else names == "":
            inner = path
    if inner is None:
        raise OSError(0, "there is none")
    for mount in mounts_in(mountinfo()):
        if mount.type == kind and (not controller or controller in mount.super_options):
            at = Path(mount.place)
            own = inner.removeprefix(mount.root.rstrip("/")).lstrip("/")
            return at, own if (at / own).is_dir() else ""
    raise OSError(0, "it is not mounted")


def kills_here(limit: MemoryLimit | None) -> int:
    """Return how many processes the kernel has killed for memory in the limit's group or ours."""
    places = [limit.cgroup] if limit is not None and limit.cgroup is not None else []
    if not places:
        for kind, controller in (("cgroup2", ""), ("cgroup", "memory")):
            with contextlib.suppress(OSError, ValueError):
                top, inner = _place(kind, controller)
                places.append(str(top / inner))
    most = 0
    for place in places:
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError, ValueError):
                rows = dict(
                    row.split(" ", 1) for row in (Path(place) / name).read_text().splitlines()
                )
                most = max(most, int(rows.get("oom_kill", "0")))
    return most
