"""What /proc says of a process and of its threads, in numbers and names.

Formats: proc_pid_stat(5), proc_pid_status(5), Documentation/filesystems/proc.rst of Linux.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from postmortem.records import record

_LONGEST = 1 << 20
_CLOCK = os.sysconf("SC_CLK_TCK")


@record
class Status:
    """A process as the kernel sees it from here."""

    pid: int
    ppid: int
    state: str
    uid: int
    command: str
    argv: tuple[str, ...]
    tracer: int
    """Who traces it; 0: nobody."""
    caught: int
    """Bit mask of the signals that it has a handler for (SigCgt)."""
    started: float
    is_kernel_thread: bool


def read_text(path: str) -> str:
    """Return a small file of /proc; raises OSError."""
    with open(path, "rb") as stream:  # noqa: PTH123
        return stream.read(_LONGEST).decode("utf-8", "surrogateescape")


def text_or_none(path: str) -> str | None:
    """Return a small file of /proc, None if it cannot be read."""
    try:
        return read_text(path)
    except OSError:
        return None


def count_or_none(path: str | os.PathLike[str]) -> int | None:
    """Return the number in a file of /proc or /sys, None for one below 0, or for what is none."""
    text = (text_or_none(os.fspath(path)) or "").strip()
    return int(text) if text.isdecimal() and len(text) < 20 else None


def read_status(pid: int) -> Status | None:
    """Return what is said of a process; None: there is none."""
    stat = stat_fields(f"/proc/{pid}/stat")
    text = text_or_none(f"/proc/{pid}/status")
    if stat is None or text is None:
        return None
    lines = dict(line.partition(":")[::2] for line in text.splitlines())
    argv = (text_or_none(f"/proc/{pid}/cmdline") or "").rstrip("\0").split("\0")
    return Status(
        pid=pid,
        ppid=_number(stat[1]),
        state=stat[0],
        uid=_number(lines.get("Uid", "").split("\t", 2)[1:2]),
        command=lines.get("Name", "").strip(),
        argv=tuple(argv) if argv != [""] else (),
        tracer=_number(lines.get("TracerPid", "")),
        caught=_hexadecimal(lines.get("SigCgt", "")),
        started=_number(stat[19]) / _CLOCK if len(stat) > 19 else 0.0,
        is_kernel_thread=bool(_number(stat[6]) & 0x00200000),  # PF_KTHREAD
    )


def stat_fields(path: str) -> list[str] | None:
    """Return the fields of a stat file from the state on; the name before may hold anything."""
    text = text_or_none(path)
    if text is None or ")" not in text:
        return None
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > 12 else None


def cpu_seconds(fields: list[str]) -> float:
    """Return the time that a thread has used the processor, by the fields of its stat."""
    return (_number(fields[11]) + _number(fields[12])) / _CLOCK


def read_environment(pid: int) -> dict[str, str] | None:
    """Return the environment that a process was started with; None where that is not allowed."""
    text = text_or_none(f"/proc/{pid}/environ")
    if text is None:
        return None
    pairs = (entry.partition("=") for entry in text.split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def all_pids() -> list[int]:
    """Return the processes of this system that can be seen."""
    try:
        return sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208
    except OSError:
        return []


def children() -> dict[int, list[int]]:
    """Return for each process its children."""
    found: dict[int, list[int]] = {}
    for pid in all_pids():
        stat = stat_fields(f"/proc/{pid}/stat")
        if stat is not None:
            found.setdefault(_number(stat[1]), []).append(pid)
    return found


def descendants(
    roots: Iterable[int], tree: Mapping[int, Sequence[int]] | None = None
) -> dict[int, int]:
    """Return the processes below some, each with its parent, those nearest to them first.

    `tree` has the children of each process; they are looked up if it is not given.
    """
    tree = children() if tree is None else tree
    found: dict[int, int] = {}
    rest = list(dict.fromkeys(roots))
    seen = set(rest)
    for parent in rest:  # it grows meanwhile
        for pid in tree.get(parent, ()):
            if pid not in seen:
                seen.add(pid)
                found[pid] = parent
                rest.append(pid)
    return found


def user_name(uid: int) -> str:
    """Return the name of a user, or the number."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def root_of(pid: int) -> str | None:
    """Return where the files of a process in a container are; None: they are ours."""
    try:
        if os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):  # noqa: PTH115
            return None
    except OSError:
        return None
    return f"/proc/{pid}/root" if Path(f"/proc/{pid}/root/proc").exists() else None


def _number(text: str | list[str]) -> int:
    word = text[0] if isinstance(text, list) and text else text
    word = word.strip() if isinstance(word, str) else ""
    return int(word) if word.lstrip("-").isdecimal() else 0


def _hexadecimal(text: str) -> int:
    try:
        return int(text.strip(), 16)
    except ValueError:
        return 0
