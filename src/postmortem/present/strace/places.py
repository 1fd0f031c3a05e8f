"""Where a log's files lie: totals by prefix, and folders in which very much was looked up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from postmortem.diagnose.strace.arguments import argument
from postmortem.facts.syscall_totals import FileCount, FolderCount, Mount
from postmortem.facts.syscalls import SystemCalls
from postmortem.records import record

# File systems of their own on every Linux machine; of the others the log does not say what is
# mounted where, so the parts of the path stand for it.
_KERNEL = ("/dev/shm", "/dev/mqueue", "/dev/hugepages", "/dev", "/proc", "/sys/fs/cgroup", "/sys")
_SHARED = frozenset({
    "beegfs", "ceph", "data", "datasets", "efs", "fs", "fsx", "gpfs", "home", "lustre", "media",
    "mnt", "mount", "net", "nfs", "project", "projects", "scratch", "users", "vol", "volumes",
    "work",
})  # fmt: skip
_STORM = 1000
_SHARE = 0.6


def prefix_of(path: str, points: Sequence[str] = ()) -> str | None:
    """Return the mount or top folder that a path is under; None for a path with no place.

    `points` are mount points that the log shows, the longest first.
    """
    if not path.startswith("/") or path.startswith("/memfd:"):
        return None
    for point in points:
        if path == point or path.startswith(point + "/"):
            return point
    for prefix in _KERNEL:
        if path == prefix or path.startswith(prefix + "/"):
            return prefix
    parts = path.split("/")[1:]
    if len(parts) > 2 and parts[0] in _SHARED:
        return f"/{parts[0]}/{parts[1]}"
    return f"/{parts[0]}" if len(parts) > 1 else "/"


def mount_points(logs: Iterable[SystemCalls]) -> tuple[str, ...]:
    """Return where the programs of logs mounted something, the longest first."""
    found = {
        argument(match, 1).strip('"').rstrip("/")
        for log in logs
        for match in log.matches
        if match.syscall == "mount" and match.errno is None
        if argument(match, 1).startswith('"/')
    }
    return tuple(sorted(found - {""}, key=len, reverse=True))


def shared_prefix(paths: Iterable[str]) -> str | None:
    """Return the prefix that several paths share, or None."""
    found = {prefix_of(path) for path in paths}
    return found.pop() if len(found) == 1 else None


def mounts(logs: Iterable[SystemCalls]) -> tuple[Mount, ...]:
    """Return totals by prefix, those with the most bytes first."""
    files: dict[str, list[FileCount]] = defaultdict(list)
    folders: dict[str, list[FolderCount]] = defaultdict(list)
    logs = tuple(logs)
    points = mount_points(logs)
    for log in logs:
        for file in log.files:
            prefix = prefix_of(file.path, points)
            if prefix is not None:
                files[prefix].append(file)
        for folder in log.folders:
            prefix = prefix_of(folder.path.rstrip("/") + "/x", points)
            if prefix is not None:
                folders[prefix].append(folder)
    rows = [_mount(p, files.get(p, []), folders.get(p, [])) for p in {*files, *folders}]
    return tuple(sorted(rows, key=_heaviest_first))


def _heaviest_first(mount: Mount) -> tuple[int, int, str]:
    # The name at last: rows come out of a set, whose order differs from run to run.
    return -(mount.read_bytes + mount.written_bytes), -mount.lookups, mount.prefix


def _mount(prefix: str, files: list[FileCount], folders: list[FolderCount]) -> Mount:
    return Mount(
        prefix,
        len(files),
        sum(f.opens for f in files),
        sum(f.reads for f in files),
        sum(f.writes for f in files),
        sum(f.read_bytes for f in files),
        sum(f.written_bytes for f in files),
        sum(f.errors for f in files),
        sum(f.calls for f in folders),
        sum(f.errors for f in folders),
    )


@record
class Storm:
    """Very many look-ups below one folder."""

    folder: str
    calls: int
    errors: int
    folders: int
    seconds: float | None
    """From the first to the last."""
    inside: float
    """Seconds that the calls themselves took; 0 if the log does not tell."""

    @property
    def rate(self) -> float | None:
        """Calls a second."""
        return self.calls / self.seconds if self.seconds else None


def storms(logs: Iterable[SystemCalls]) -> tuple[Storm, ...]:
    """Return the folders below which a thousand things or more were looked up, the most first."""
    found: list[Storm] = []
    for log in logs:
        groups: dict[str, list[FolderCount]] = defaultdict(list)
        for folder in log.folders:
            prefix = prefix_of(folder.path.rstrip("/") + "/x")
            if prefix is not None:
                groups[prefix].append(folder)
        for prefix, rows in groups.items():
            if sum(row.calls for row in rows) >= _STORM:
                found.append(_storm(prefix, rows, log))
    return tuple(sorted(found, key=lambda storm: -storm.calls))


def _storm(prefix: str, rows: list[FolderCount], log: SystemCalls) -> Storm:
    """Go down to the folder that still has most of it."""
    total = sum(row.calls for row in rows)
    while True:
        below: dict[str, list[FolderCount]] = defaultdict(list)
        start = prefix.rstrip("/") + "/"
        for row in rows:
            if row.path.startswith(start) and row.path != start:
                below[start + row.path[len(start) :].split("/", 1)[0]].append(row)
        best = max(below.values(), key=lambda part: sum(r.calls for r in part), default=[])
        if sum(row.calls for row in best) < max(_STORM, _SHARE * total):
            break
        prefix = next(name for name, part in below.items() if part is best)
        rows, total = best, sum(row.calls for row in best)
    firsts = [row.first for row in rows if row.first is not None]
    lasts = [row.last for row in rows if row.last is not None]
    span = log.seconds_to_end(min(firsts), max(lasts)) if firsts and lasts else None
    return Storm(
        prefix,
        total,
        sum(row.errors for row in rows),
        len(rows),
        span,
        sum(row.seconds for row in rows),
    )
