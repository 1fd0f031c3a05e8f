"""Threads that want the GIL while the main thread crashes with it."""

import os
import threading

started = threading.Semaphore(0)


def spin():
    started.release()
    while True:
        pass


for number in range(3):
    threading.Thread(target=spin, name=f"spinner{number}", daemon=True).start()
for _ in range(3):
    started.acquire()
os.abort()
