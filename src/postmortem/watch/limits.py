"""The limits on memory above a process: of its cgroups (both versions) and of the host."""

import re

from postmortem.readers.live.status import text_or_none

_TOP = "/sys/fs/cgroup"
_NO_LIMIT = 1 << 60


class Limit:
    """One limit, and how much of it is used."""

    def __init__(self, name: str, limit: int, usage: str, stat: str, inactive: str) -> None:
        self.name, self.limit = name, limit
        self._usage, self._stat, self._inactive = usage, stat, inactive

    def used(self) -> int | None:
        """Return the bytes in use without what the kernel takes back first; None: it has gone."""
        usage = text_or_none(self._usage)
        if usage is None or not usage.strip().isdigit():
            return None
        found = re.search(rf"^{self._inactive} (\d+)", text_or_none(self._stat) or "", re.M)
        return max(0, int(usage) - (int(found[1]) if found else 0))


class Host:
    """All memory of the machine."""

    name = "the memory of this machine"

    def __init__(self) -> None:
        self.limit = _meminfo("MemTotal") or 0

    def used(self) -> int | None:
        """Return the bytes that are not available."""
        free = _meminfo("MemAvailable")
        return None if free is None else self.limit - free


def limits_of(pid: int) -> list[Limit | Host]:
    """Return the limits above a process, those of its cgroups first."""
    found: list[Limit | Host] = []
    for line in (text_or_none(f"/proc/{pid}/cgroup") or "").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            found += _above(path, _TOP, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            found += _above(path, f"{_TOP}/memory", *names)
    return [*found, Host()]


def _above(path: str, top: str, limit: str, usage: str, inactive: str) -> list[Limit | Host]:
    found: list[Limit | Host] = []
    while True:
        folder = f"{top}{path}".rstrip("/")
        text = (text_or_none(f"{folder}/{limit}") or "").strip()
        if text.isdigit() and int(text) < _NO_LIMIT:
            name = f"{limit} of the cgroup {path or '/'}"
            stat = f"{folder}/memory.stat"
            found.append(Limit(name, int(text), f"{folder}/{usage}", stat, inactive))
        if path in ("", "/"):
            return found
        path = path.rpartition("/")[0]


def _meminfo(name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", text_or_none("/proc/meminfo") or "", re.M)
    return int(found[1]) * 1024 if found else None
