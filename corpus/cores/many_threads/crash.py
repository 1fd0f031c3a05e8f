"""250 threads at the same barrier, then one reads address 0x10."""

import ctypes
import threading

gate = threading.Barrier(251)


def worker():
    gate.wait()
    threading.Event().wait()


for _ in range(250):
    threading.Thread(target=worker, daemon=True).start()
gate.wait()
ctypes.string_at(0x10)
