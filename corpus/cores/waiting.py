"""Waits until threads of this process are stuck, as the kernel sees it; prints ready then."""

import os
import sys

FUTEX = {"x86_64": "202", "aarch64": "98"}[os.uname().machine]


def in_futex():
    """Return how many threads stand in futex(2)."""
    count = 0
    for tid in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{tid}/syscall") as file:
            count += file.read().split(" ")[0] == FUTEX
    return count


def ready_when(threads):
    while in_futex() < threads:
        os.sched_yield()
    print("ready", flush=True)
    sys.stdout.flush()
