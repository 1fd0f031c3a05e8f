"""Which file systems have no room left: asked of the kernel, or as df printed it.

df rounds up: 100 % says that little is left, and what is left says how much (df(1), coreutils). A
page is the least that a file takes, so that fewer bytes are none.
"""

import os
import re
from collections.abc import Iterator
from functools import partial

from postmortem.facts.health import FILE_SYSTEM, Reading
from postmortem.patterns import Pattern
from postmortem.readers.files import answers_within
from postmortem.readers.mounts import mountinfo, mounts_in
from postmortem.text import size

_SECONDS = 2.0
"""Longest that they may take to answer: a dead file server never does."""
_MOST = 512
_PAGE = 4096
_HEAD = Pattern(
    r"^Filesystem\s.*?(?P<unit>\S+)\s+I?Used\s+(?:Avail\w*|I?Free)\s+\S+\s+Mounted on\s*$"
)
_ROW = Pattern(r"(?P<size>[\d.,]+[KMGTPE]?i?B?)\s+\S+\s+(?P<free>\S+)\s+\d+%\s+(?P<place>/.*?)\s*$")
_PROMPT = Pattern(r"(?:^|[$#>%]\s*)df\b")
_OTHER = Pattern(r"(?:%|\s-)\s+[/-]|^\S+$")
"""A row without numbers, a total, and a long name that has a line of its own."""
_OF_DF = (_HEAD, _ROW, _PROMPT, _OTHER)
_ALWAYS_FULL = Pattern(r"^/dev/loop\d|\b(?:squashfs|iso9660|erofs|cramfs)\b")
_UNITS = {unit: 1024**power for power, unit in enumerate("BKMGTPE")}


def is_df(text: str) -> bool:
    """Return whether a text is df's output and nothing else, but for the commands above it."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not any(map(_HEAD.match, lines[:2])):
        return False
    return all(any(form.search(line) for form in _OF_DF) for line in lines)


def readings_of_df(text: str) -> Iterator[Reading]:
    """Yield a reading for each file system of ``df``, ``df -h``, ``df -i`` and so on."""
    head = None
    for line in text.splitlines():
        found, row = _HEAD.match(line), _ROW.search(line)
        head = found or head
        if found or not row or not head or _ALWAYS_FULL.search(line):
            continue
        if head["unit"] == "Inodes":
            whole, free = _count(row["size"]), _count(row["free"])
            yield _inodes(row["place"], int(free), int(whole))
            continue
        block = re.match(r"(\d*)([BKMGTPE]?)-", head["unit"])
        unit = int(block[1] or 1) * _UNITS[block[2] or "B"] if block else 1
        yield _bytes(row["place"], int(_count(row["free"]) * unit), int(_count(row["size"]) * unit))


def room_readings() -> Iterator[Reading]:
    """Yield a reading for each file system of this machine that is mounted for writing."""
    mounts = mounts_in(mountinfo())
    # To ask autofs is to have it mount something; what it has mounted is listed by itself.
    writable = (mount for mount in mounts if "rw" in mount.options and mount.type != "autofs")
    places = [*dict.fromkeys(mount.place for mount in writable)][:_MOST]
    answers = answers_within(_SECONDS, [partial(_asked, place) for place in places])
    seen = set()
    for place, told in zip(places, answers, strict=True):
        if told is None or told[0] in seen or not told[1].f_blocks:
            continue
        seen.add(told[0])
        room = told[1]
        yield _bytes(place, room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize)
        if room.f_files:
            yield _inodes(place, room.f_favail, room.f_files)


def _asked(place: str) -> tuple[int, os.statvfs_result]:
    """Return the device that is mounted there now, the last one of several, and its room."""
    return os.stat(place).st_dev, os.statvfs(place)  # noqa: PTH116


def _bytes(place: str, free: int, whole: int) -> Reading:
    words = f"{size(free)} of {size(whole)} free"
    return Reading(
        f"{FILE_SYSTEM}{place}", "space_used_up", int(free < _PAGE), f"df -h {place}", words
    )


def _inodes(place: str, free: int, whole: int) -> Reading:
    said = f"{free:,} of {whole:,} inodes free"
    return Reading(f"{FILE_SYSTEM}{place}", "inodes_used_up", int(not free), f"df -i {place}", said)


def _count(text: str) -> float:
    found = re.match(r"([\d.]+)([KMGTPE]?)", text.replace(",", "."))
    return float(found[1]) * _UNITS[found[2] or "B"] if found else 0.0
