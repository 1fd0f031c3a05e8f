"""What /sys and /proc count: errors of memory, PCIe, disks, links, and AMD's GPUs."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from postmortem.facts.health import FILE_SYSTEM, Reading
from postmortem.facts.source import Problem
from postmortem.readers.live.status import count_or_none, text_or_none
from postmortem.readers.mounts import mounts_in

_MOST = 4096
_GPU_CLASSES = ("0x03", "0x12")
"""Of PCI: displays, and accelerators."""
_HOST_CLASSES = ("0x01", "0x02")
"""Storage, and networks."""
_AER = (("fatal", "pcie_fatal"), ("nonfatal", "pcie_nonfatal"), ("correctable", "pcie_corrected"))
_FABRIC_ERRORS = ("symbol_error", "port_rcv_errors", "link_error_recovery")
_JOURNALLED = frozenset("ext2 ext3 ext4 xfs btrfs f2fs".split())


def host_sysfs(root: Path, problems: list[Problem]) -> Iterator[Reading]:
    """Yield what is counted of memory, processors, PCIe, disks, file systems and fabrics."""
    controllers = _names(root, "sys/devices/system/edac/mc/mc[0-9]*")
    if not controllers:
        remedy = "a virtual machine has none; else load the EDAC driver of this processor"
        problems.append(Problem("/sys/devices/system/edac", "shows no memory controller", remedy))
    for folder in controllers:
        for file, name in (("ue", "memory_uncorrected"), ("ce", "memory_corrected")):
            subject = f"memory controller {folder.name}"
            yield from _counted(root, subject, name, folder / f"{file}_count")
    found = re.search(r"^HardwareCorrupted:\s+(\d+)", _text(root / "proc/meminfo"), re.MULTILINE)
    if found:
        command = "grep HardwareCorrupted /proc/meminfo"
        yield Reading("memory", "memory_poisoned", int(found[1]), command)
    found = re.search(r"^ *MCE:([ \d]+)", _text(root / "proc/interrupts"), re.MULTILINE)
    if found:
        total = sum(map(int, found[1].split()))
        yield Reading("processors", "machine_checks", total, "grep MCE: /proc/interrupts")
    yield from _throttled(root)
    yield from _pcie(root, _HOST_CLASSES, "device")
    yield from _disks(root)
    yield from _filesystems(root)
    yield from _fabrics(root)


def gpu_sysfs(root: Path) -> Iterator[Reading]:
    """Yield what the bus and AMD's driver count of GPUs."""
    yield from _pcie(root, _GPU_CLASSES, "GPU")
    for file in _names(root, "sys/bus/pci/devices/*/ras/*_err_count"):
        found = dict(re.findall(r"^(ue|ce): *(\d{1,18})", _text(file), re.MULTILINE))
        block = file.name.removesuffix("_err_count")
        subject = f"GPU {file.parents[1].name} {block}"
        for key, name in (("ue", "gpu_ras_uncorrected"), ("ce", "gpu_ras_corrected")):
            if key in found:
                yield Reading(subject, name, int(found[key]), _cat(root, file))


def _pcie(root: Path, classes: tuple[str, ...], noun: str) -> Iterator[Reading]:
    for device in _names(root, "sys/bus/pci/devices/*"):
        if not _text(device / "class").startswith(classes):
            continue
        subject = f"{noun} {device.name}"
        gone = _head(device / "config") == b"\xff" * 4
        yield Reading(subject, "pcie_gone", int(gone), f"lspci -n -s {device.name}")
        if gone:
            continue
        for kind, name in _AER:
            file = device / f"aer_dev_{kind}"
            found = re.search(r"^TOTAL_ERR_\w+ (\d{1,18})", _text(file), re.MULTILINE)
            if found:
                yield Reading(subject, name, int(found[1]), _cat(root, file))
        # What the slot cannot do is no fault of the device.
        slot = count_or_none(device.resolve().parent / "max_link_width")
        most = count_or_none(device / "max_link_width")
        lanes = count_or_none(device / "current_link_width")
        if most and lanes and most < 255:
            lost = max(0, min(most, slot or most) - lanes)
            command = f"lspci -vv -s {device.name}  # LnkCap, LnkSta: Width"
            yield Reading(subject, "pcie_lanes_lost", lost, command, f"x{lanes} of x{lanes + lost}")


def _throttled(root: Path) -> Iterator[Reading]:
    folder = "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle"
    counts = [count_or_none(file) for file in _names(root, f"{folder}/*_throttle_count")]
    known = [count for count in counts if count is not None]
    if known:
        command = f"grep . /{folder}/*_throttle_count"
        yield Reading("processors", "cpu_throttled", max(known), command)


def _disks(root: Path) -> Iterator[Reading]:
    for block in _names(root, "sys/block/*"):
        subject = f"disk {block.name}"
        errors = _text(block / "device/ioerr_cnt").strip()
        if re.fullmatch(r"0x[0-9a-f]{1,16}", errors):
            command = _cat(root, block / "device/ioerr_cnt")
            yield Reading(subject, "disk_errors", int(errors, 16), command)
        yield from _counted(root, subject, "disk_degraded", block / "md/degraded")
    for controller in _names(root, "sys/class/nvme/nvme*"):
        state = _text(controller / "state").strip()
        if state:
            command = _cat(root, controller / "state")
            dead = int(state != "live")
            yield Reading(f"disk {controller.name}", "disk_not_live", dead, command, state[:40])


def _filesystems(root: Path) -> Iterator[Reading]:
    for mount in islice(mounts_in(_text(root / "proc/self/mountinfo")), _MOST):
        if mount.type not in _JOURNALLED:
            continue
        # Mounted for writing, while the file system below allows none: the kernel took it away.
        taken = "rw" in mount.options and "ro" in mount.super_options
        taken |= not {"emergency_ro", "shutdown"}.isdisjoint(mount.super_options)
        name = f"{FILE_SYSTEM}{mount.place}"
        yield Reading(name, "filesystem_read_only", int(taken), "cat /proc/self/mountinfo")
    for folder in _names(root, "sys/fs/ext4/*"):
        name = f"{FILE_SYSTEM}{folder.name}"
        yield from _counted(root, name, "filesystem_errors", folder / "errors_count")


def _fabrics(root: Path) -> Iterator[Reading]:
    for port in _names(root, "sys/class/infiniband/*/ports/*"):
        subject = f"port {port.parents[1].name}/{port.name}"
        state = _text(port / "state").strip()
        if state:
            down = int("ACTIVE" not in state)
            yield Reading(subject, "fabric_port_down", down, _cat(root, port / "state"), state[:40])
        counters = port / "counters"
        yield from _counted(root, subject, "fabric_link_downed", counters / "link_downed")
        counts = [count_or_none(counters / name) for name in _FABRIC_ERRORS]
        known = [count for count in counts if count is not None]
        if known:
            command = f"grep . /{counters.relative_to(root)}/*err*"
            yield Reading(subject, "fabric_errors", sum(known), command)


def _counted(root: Path, subject: str, name: str, file: Path) -> Iterator[Reading]:
    count = count_or_none(file)
    if count is not None:
        yield Reading(subject, name, count, _cat(root, file))


def _names(root: Path, pattern: str) -> list[Path]:
    try:
        return sorted(root.glob(pattern))[:_MOST]
    except OSError:
        return []


def _cat(root: Path, file: Path) -> str:
    return f"cat /{file.relative_to(root)}"


def _text(file: Path) -> str:
    return text_or_none(str(file)) or ""


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(4)
    except OSError:
        return b""
