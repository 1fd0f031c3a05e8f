"""What lies beside a core: on which host the process died, and when.

The core itself says neither. Handlers write it into extended attributes, into files of the same
folder, or into the name of the core.
"""

import os
import re
from pathlib import Path

from postmortem.patterns import Pattern
from postmortem.readers.regular import open_regular
from postmortem.records import record

# systemd's src/coredump/coredump-submit.c: core.COMM.UID.BOOTID.PID.MICROSECONDS
_SYSTEMD = Pattern(r"core\..*\.\d+\.[0-9a-f]{32}\.\d+\.(?P<time>\d{16})(\.\w+)?")
_PACKED = Pattern(r"\.(zst|zstd|lz4|gz|xz|bz2)$")
_SECONDS = Pattern(r"[12]\d{9}")
# A label of a host's name that is no number, so that it is no field of core_pattern either.
_HOST = Pattern(r"(?=[^.]*[A-Za-z])[A-Za-z0-9][A-Za-z0-9-]*(\.(?=[^.]*[A-Za-z])[A-Za-z0-9-]+)*")
_NO_HOST = Pattern(
    r"\d+[KMGT](i?B)?|core|dump|old|new|bak|orig|copy|save[d]?|tmp|temp|part|slim|small|cut|elf",
    flags=re.IGNORECASE,
)
"""What people add to the name of a core: a size (``core.4711.512K``), a state."""
_ABRT_NAMES = ("coredump", "CoreDump")
_LONGEST = 4096


@record
class Origin:
    """Host, time and thread of a crash, as far as something beside the core tells."""

    hostname: str | None = None
    crashed_at: float | None = None
    """Seconds since the epoch."""
    thread_name: str | None = None


def read_origin(path: str, pid: int) -> Origin:
    """Return what attributes, neighbours and name of a core file tell, the surest first."""
    named = _of_name(Path(path).name, pid)
    folder = _of_folder(Path(path))
    attributes = _attributes(path)
    stamp = attributes.get("timestamp", "")
    taken = int(stamp) / 1e6 if stamp.isascii() and stamp.isdigit() and len(stamp) < 18 else None
    return Origin(
        hostname=attributes.get("hostname") or folder.hostname or named.hostname,
        crashed_at=taken or folder.crashed_at or named.crashed_at,
        thread_name=attributes.get("thread_name"),
    )


def _of_name(name: str, pid: int) -> Origin:
    """Read ``core.python.0.BOOTID.4711.1700000000000000.zst`` and ``core.%e.%p.%h.%t``.

    core_pattern is anybody's choice: but for systemd's own form, only what follows the process ID
    that the core itself has is believed, a host before a time.
    """
    found = _SYSTEMD.fullmatch(name)
    if found is not None:
        return Origin(crashed_at=int(found["time"]) / 1e6)
    name = _PACKED.sub("", name)
    for separator in (".", "-", "_"):
        head, found_pid, rest = name.rpartition(f"{separator}{pid}{separator}")
        if not found_pid or not head:
            continue
        before, _, last = rest.rpartition(separator)
        taken = float(last) if _SECONDS.fullmatch(last) else None
        host = before if taken is not None else rest
        is_host = _HOST.fullmatch(host) is not None and _NO_HOST.fullmatch(host) is None
        return Origin(host if is_host else None, taken)
    return Origin()


def _of_folder(path: Path) -> Origin:
    """Read ABRT's folder of a problem: one file for each fact beside `coredump`."""
    if path.name not in _ABRT_NAMES:
        return Origin()
    host = _text(path.with_name("hostname"))
    time = _text(path.with_name("last_occurrence")) or _text(path.with_name("time"))
    return Origin(
        host if host and _HOST.fullmatch(host) else None,
        float(time) if time and _SECONDS.fullmatch(time) else None,
    )


def _text(path: Path) -> str | None:
    try:
        if not path.is_file():
            return None
        with open_regular(path) as stream:
            return stream.read(_LONGEST).decode(errors="replace").strip()
    except OSError:
        return None


def _attributes(path: str) -> dict[str, str]:
    """What systemd-coredump wrote beside the core, in extended attributes ``user.coredump.*``.

    ``hostname`` since systemd 215; ``thread_name`` of the crashed thread since 260 (systemd#41082).
    """
    prefix = "user.coredump."
    result: dict[str, str] = {}
    try:
        names = os.listxattr(path)
        for name in names:
            if name.startswith(prefix):
                result[name.removeprefix(prefix)] = os.fsdecode(os.getxattr(path, name)).strip("\0")
    except OSError:  # a file system without attributes, or not Linux
        return result
    return result
