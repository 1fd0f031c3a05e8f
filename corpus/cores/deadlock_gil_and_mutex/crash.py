"""One thread holds a C++ mutex and wants the GIL; the other holds the GIL and wants the mutex.

The watcher is another process: no thread of this one can run Python once it is stuck.
"""

import ctypes
import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, sys.argv[2])
import waiting

inside = threading.Event()
free, kept = ctypes.CDLL(sys.argv[1]), ctypes.PyDLL(sys.argv[1])


@ctypes.CFUNCTYPE(None)
def callback():
    inside.set()
    sum(range(10**12))  # gives the GIL away again and again, and holds the mutex meanwhile


def watch(pid):
    """Print ready when both threads of the parent stand in futex(2) for good."""
    tasks = f"/proc/{pid}/task"
    while True:
        states = [Path(tasks, tid, "syscall").read_text().split() for tid in os.listdir(tasks)]
        # the mutex's waiter has no time-out (fourth argument); the GIL's has
        calls = [s for s in states if s[0] == waiting.FUTEX]
        if len(calls) == 2 and any(int(s[4], 16) == 0 for s in calls):
            print("ready", flush=True)
            os._exit(0)
        os.sched_yield()


parent = os.getpid()
if os.fork() == 0:
    watch(parent)
threading.Thread(target=free.call_with_mutex, args=(callback,), name="caller").start()
inside.wait()
kept.take_mutex()
