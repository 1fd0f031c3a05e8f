"""The health of this machine, read and never judged: sysfs, the kernel's log, vendors' tools."""

import os
import time
from pathlib import Path

from postmortem.facts.health import Health, Reading
from postmortem.facts.source import Problem
from postmortem.readers.health.nvidia import nvidia_readings
from postmortem.readers.health.programs import clock_readings, disk_readings, log_readings
from postmortem.readers.health.room import room_readings
from postmortem.readers.health.sysfs import gpu_sysfs, host_sysfs
from postmortem.readers.live.status import text_or_none


def read_health(*, host: bool, gpu: bool, root: Path = Path("/")) -> Health:
    """Return what there is to know of the host, of its GPUs, or of both.

    `root` is where /sys and /proc lie; programs are asked only of this machine's own.
    """
    problems: list[Problem] = []
    readings: list[Reading] = []
    live = root == Path("/")
    if host:
        readings += host_sysfs(root, problems)
        if live:
            readings += (
                *disk_readings(root, problems),
                *clock_readings(problems),
                *room_readings(),
            )
    if gpu:
        readings += gpu_sysfs(root)
        if live:
            readings += nvidia_readings(problems)
    if live:
        readings += log_readings(problems, host=host, gpu=gpu)
    boot = text_or_none(str(root / "proc/sys/kernel/random/boot_id"))
    return Health(
        host=os.uname().nodename,
        boot=boot.strip() if boot else None,
        taken=time.time(),
        readings=tuple(readings),
        problems=tuple(problems),
    )
