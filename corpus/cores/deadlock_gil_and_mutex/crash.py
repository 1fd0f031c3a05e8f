"""One thread holds a C++ mutex and wants the GIL; the other holds the GIL and wants the mutex.

The watcher is another process: no thread of this one can run Python once it is stuck.
"""

import ctypes
import os
import sys
import threading

sys.path.insert(0, sys.argv[2])
import waiting

inside = threading.Event()
free, kept = ctypes.CDLL(sys.argv[1]), ctypes.PyDLL(sys.argv[1])


@ctypes.CFUNCTYPE(None)
def callback():
    inside.set()
    while True:  # gives the GIL away when asked, and holds the mutex meanwhile
        pass


def watch(pid):
    """Print ready when both threads of the parent stand in futex(2) for good."""
    tasks = f"/proc/{pid}/task"

    def call_of(tid):
        with open(f"{tasks}/{tid}/syscall") as file:
            return file.read().split()

    while True:
        calls = [call for call in map(call_of, os.listdir(tasks)) if call[0] == waiting.FUTEX]
        # a mutex is waited for while it is 2, without a time-out
        if len(calls) == 2 and any(call[3:5] == ["0x2", "0x0"] for call in calls):
            print("ready", flush=True)
            os._exit(0)
        os.sched_yield()


parent = os.getpid()
if os.fork() == 0:
    watch(parent)
threading.Thread(target=free.call_with_mutex, args=(callback,), name="caller").start()
inside.wait()
kept.take_mutex()
