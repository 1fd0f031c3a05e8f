"""Waits until threads of this process are stuck, as the kernel sees it; prints ready then."""

import os

FUTEX = {"x86_64": "202", "aarch64": "98"}[os.uname().machine]


def in_futex():
    """Return how many threads stand in futex(2) for good: who waits for the GIL has a time-out."""
    count = 0
    for tid in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{tid}/syscall") as file:
            call = file.read().split()
        count += call[0] == FUTEX and int(call[4], 16) == 0
    return count


def ready_when(threads, entered=None):
    """Print ready when that many threads wait, and `entered` has a row of each of them."""
    while in_futex() < threads or (entered is not None and len(entered) < threads):
        os.sched_yield()
    print("ready", flush=True)
