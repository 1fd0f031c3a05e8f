"""Crashes in a library: crash_sites.py LIBRARY SITE [IDLE_THREADS [in_thread]]."""

import ctypes
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
idle = int(sys.argv[3]) if len(sys.argv) > 3 else 0
gate = threading.Event()
ready = threading.Semaphore(0)


def wait(number: int) -> None:
    ready.release()
    gate.wait()


def step(site: str) -> None:
    bad = (0x10, 0x7000_0000_1234)[idle % 2]
    if site in ("copy_to", "store_from_threads"):
        getattr(library, site)(ctypes.c_long(bad), ctypes.c_long(4))
    else:
        getattr(library, site)(ctypes.c_long(bad))


def evaluate(site: str) -> None:
    getattr(library, site)(ctypes.c_long(0x10))


def train(site: str) -> None:
    evaluate(site.removesuffix("@evaluate")) if site.endswith("@evaluate") else step(site)


for number in range(idle):
    threading.Thread(target=wait, args=(number,), name=f"pool-{number}", daemon=True).start()
for _ in range(idle):
    ready.acquire()
if sys.argv[4:] == ["in_thread"]:
    worker = threading.Thread(target=train, args=(sys.argv[2],), name=f"worker-{idle}")
    worker.start()
    worker.join()
else:
    train(sys.argv[2])
