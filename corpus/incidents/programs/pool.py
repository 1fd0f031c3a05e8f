"""Work in a pool of processes, one of which crashes: ``pool.py``, ``pool.py again``."""

import concurrent.futures
import ctypes
import sys
import time
import traceback
from pathlib import Path

BROKEN = Path("broken")


def feature(item):
    if item == 23 and not BROKEN.exists():
        BROKEN.touch()
        ctypes.string_at(16)
    time.sleep(0.02)
    return item * item


def work():
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for item, _ in enumerate(pool.map(feature, range(60))):
            if item % 5 == 0:
                print(f"[features] {item}/60", flush=True)


if __name__ == "__main__":
    try:
        work()
    except concurrent.futures.process.BrokenProcessPool:
        if "again" not in sys.argv:
            raise
        traceback.print_exc()
        print("[features] a worker is gone, from the start", flush=True)
        work()
