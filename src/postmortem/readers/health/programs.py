"""What only programs or system calls tell: disks by smartctl, the clock, the kernel's log."""

import ctypes
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from postmortem.facts.health import Reading
from postmortem.facts.kernel_log import Fault, KernelEvent, KernelKind
from postmortem.facts.source import Problem
from postmortem.readers.answers import answer_of
from postmortem.readers.kernel_log.read import read_events
from postmortem.records import replace

_SECONDS = 20.0
_MOST_DISKS = 64
_MOST_BYTES = 64 << 20
_SYSTEM_PATH = "/usr/sbin:/sbin:/usr/local/sbin"
# linux/timex.h, on 64-bit machines: struct timex, and bits of its status.
_TIMEX_BYTES, _STATUS_AT = 208, 40
_UNSYNCHRONISED = 0x40
_OF_KIND = {
    KernelKind.MACHINE: "log_memory",
    KernelKind.DISK: "log_disk",
    KernelKind.PCIE: "log_pcie",
    KernelKind.FABRIC: "log_fabric",
    KernelKind.GPU: "log_gpu",
}


def output_of(command: Sequence[str], problems: list[Problem]) -> str | None:
    """Return what a program prints, whatever its status; None, with a problem, if it cannot."""
    path = shutil.which(command[0]) or shutil.which(command[0], path=_SYSTEM_PATH)
    words = " ".join(command)
    if path is None:
        problems.append(Problem(words, f"{command[0]} is not installed"))
        return None
    done = answer_of([path, *command[1:]], seconds=_SECONDS)
    if isinstance(done, str):
        problems.append(Problem(words, done))
        return None
    said = done.stdout[:_MOST_BYTES].decode("utf-8", "replace")
    if not said.strip():
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        why = last[0][:200] if last else f"ended with {done.returncode}, no message"
        problems.append(Problem(words, why))
        return None
    return said


def disk_readings(root: Path, problems: list[Problem]) -> Iterator[Reading]:
    """Yield what disks say of themselves; smartctl needs root."""
    names = [block.name for block in sorted((root / "sys/block").glob("*"))]
    disks = [name for name in names if name.startswith(("sd", "nvme"))][:_MOST_DISKS]
    for disk in disks:
        command = ["smartctl", "-H", "-A", "--json=c", f"/dev/{disk}"]
        said = output_of(command, problems)
        if said is None:
            return
        found = smart_readings(said, disk)
        if not found:
            why = "says nothing of the disk's health"
            problems.append(Problem(" ".join(command), why, "run this as root"))
        yield from found


def smart_readings(text: str, disk: str) -> tuple[Reading, ...]:
    """Return what smartctl's JSON says of one disk."""
    try:
        said = json.loads(text)
        passed = said.get("smart_status", {}).get("passed")
        nvme = said.get("nvme_smart_health_information_log", {})
        table = said.get("ata_smart_attributes", {}).get("table", [])
        raw = {row["id"]: row["raw"]["value"] for row in table}
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError):
        return ()
    # 197, 198: sectors that could not be read and wait to be written anew.
    values = {
        "disk_failing": None if passed is None else int(not passed),
        "disk_media_errors": nvme.get("media_errors", raw.get(198, raw.get(197))),
        "disk_worn": nvme.get("percentage_used"),
    }
    command = f"smartctl -a /dev/{disk}"
    return tuple(
        Reading(f"disk {disk}", name, value, command)
        for name, value in values.items()
        if type(value) is int
    )


def clock_readings(problems: list[Problem]) -> Iterator[Reading]:
    """Yield whether the kernel holds its clock for right, and by how much chrony sees it off."""
    block = ctypes.create_string_buffer(_TIMEX_BYTES)
    try:
        asked = ctypes.CDLL(None, use_errno=True).adjtimex(block) >= 0
    except (OSError, AttributeError):
        asked = False
    if asked:
        status = ctypes.c_int.from_buffer(block, _STATUS_AT).value
        adrift = int(bool(status & _UNSYNCHRONISED))
        yield Reading("clock", "clock_unsynchronised", adrift, "timedatectl")
    else:
        problems.append(Problem("adjtimex(2)", "is not allowed here"))
    if shutil.which("chronyc"):
        said = output_of(["chronyc", "-c", "tracking"], problems) or ""
        yield from chrony_readings(said)


def chrony_readings(text: str) -> tuple[Reading, ...]:
    """Return the offset out of ``chronyc -c tracking``: its fifth field, in seconds."""
    fields = text.strip().split(",")
    try:
        offset = float(fields[4])
        microseconds = abs(int(offset * 1e6))
    except (IndexError, ValueError, OverflowError):
        return ()
    return (Reading("clock", "clock_offset", microseconds, "chronyc tracking"),)


def log_readings(problems: list[Problem], *, host: bool, gpu: bool) -> tuple[Reading, ...]:
    """Return what the kernel's log of this boot tells of hardware."""
    said = output_of(["dmesg"], problems)
    if said is None:
        return ()
    events = read_events(said.encode("utf-8", "replace"), "dmesg")
    found = readings_of_events(events)
    read = tuple(Reading("kernel log", name, 0, "dmesg -T") for name in _OF_KIND.values())
    return tuple(
        row for row in (*read, *found) if (gpu if row.name.startswith("log_gpu") else host)
    )


def readings_of_events(events: Sequence[KernelEvent]) -> tuple[Reading, ...]:
    """Return how often the log tells of each device and kind of fault, with the last words."""
    found: dict[tuple[str, str], Reading] = {}
    for event in events:
        name = _OF_KIND.get(event.kind)
        if name is None or event.fault in (Fault.NONE, Fault.AFTERMATH):
            continue
        noun = "host"
        if event.kind is KernelKind.GPU:
            noun = "GPU"
            name += {Fault.HARDWARE: "_hardware", Fault.PROGRAM: "_program"}.get(event.fault, "")
        subject = f"{noun} {event.device.lower()}" if event.device else noun
        old = found.get((subject, name)) or Reading(subject, name, 0, "dmesg -T")
        found[subject, name] = replace(
            old, value=old.value + event.count, detail=event.brief or event.text[:120]
        )
    return tuple(found.values())
