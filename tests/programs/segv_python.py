"""Two named Python threads sleep; the main thread reads address 0 through ctypes."""

import ctypes
import threading

ready = threading.Barrier(3)


def worker(number):
    ready.wait()
    threading.Event().wait()


for number in range(2):
    threading.Thread(target=worker, args=(number,), name=f"worker-{number}", daemon=True).start()
ready.wait()
print("ctypes.string_at(0) is about to read address 0", flush=True)
ctypes.string_at(0)
