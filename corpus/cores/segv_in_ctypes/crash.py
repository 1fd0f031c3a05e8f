"""Passes NULL to C through ctypes, with worker threads asleep."""

import ctypes
import threading
import time


def worker(index):
    payload = {"index": index, "state": "sleeping"}
    time.sleep(1000)
    return payload


for i in range(6):
    threading.Thread(target=worker, args=(i,), daemon=True, name=f"worker-{i}").start()


def read_header(pointer):
    return ctypes.string_at(pointer)


def load_batch():
    batch = [1, 2, 3]
    return read_header(0), batch


load_batch()
