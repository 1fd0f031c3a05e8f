"""The file systems that are mounted, as the kernel lists them; none of them is touched for it."""

from collections.abc import Iterator
from pathlib import Path

from postmortem.patterns import Pattern
from postmortem.records import record

MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = Pattern(r"\\([0-7]{3})")


@record
class Mount:
    """A line of proc_pid_mountinfo(5)."""

    place: str
    root: str
    """The folder of its own that is seen there."""
    options: tuple[str, ...]
    """Of this place."""
    type: str
    super_options: tuple[str, ...]
    """Of the file system, wherever it is mounted."""


def mountinfo() -> str:
    """Return proc_pid_mountinfo(5) of this process; "" where there is none."""
    try:
        return MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return ""


def mounts_in(text: str) -> Iterator[Mount]:
    """Yield the mounts of proc_pid_mountinfo(5); one that hides another comes after it."""
    for line in text.split("\n"):
        left, separator, right = line.partition(" - ")
        of_place, of_system = left.split(" "), right.split(" ")
        if separator and len(of_place) > 5:
            options = of_system[2] if len(of_system) > 2 else ""
            yield Mount(
                _path(of_place[4]),
                _path(of_place[3]),
                tuple(of_place[5].split(",")),
                of_system[0],
                tuple(options.split(",")),
            )


def mount_of(name: str, text: str) -> Mount | None:
    """Return what is mounted where an absolute path lies.

    The longest mount point wins, and of equal ones the last, which hides the others.
    """
    best: Mount | None = None
    for mount in mounts_in(text):
        prefix = mount.place if mount.place.endswith("/") else mount.place + "/"
        if (name + "/").startswith(prefix) and (
            best is None or len(mount.place) >= len(best.place)
        ):
            best = mount
    return best


def _path(words: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), words)
