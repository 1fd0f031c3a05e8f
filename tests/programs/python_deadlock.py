"""Threads in a deadlock of Python locks, or in what looks like one (CPython 3.8 to 3.13).

`python_deadlock.py KIND` sends itself SIGABRT from a child once the kernel shows all threads in
futex(2): abba, three, twice (one thread, one lock), rlock, released (a lock that was held before,
in a frame that lives on), condition (a Condition gave the lock back).
"""

import os
import signal
import sys
import threading
import time

FUTEX = {"x86_64": "202", "aarch64": "98"}[os.uname().machine]


def start(*functions):
    for function in functions:
        threading.Thread(target=function, name=function.__name__, daemon=True).start()
    return len(functions) + 1


def circle(make, count):
    locks = [make() for _ in range(count)]
    meet = threading.Barrier(count)

    def member(number):
        def taker():
            with locks[number]:
                meet.wait()
                with locks[(number + 1) % count]:
                    pass

        taker.__name__ = f"taker{number}"
        return taker

    return start(*(member(number) for number in range(count)))


def twice():
    lock = threading.Lock()

    def inner():
        with lock:
            pass

    def outer():
        with lock:
            inner()

    return start(outer)


def released():
    lock, other = threading.Lock(), threading.Lock()
    gone = threading.Event()

    def former():
        with lock:
            pass
        gone.set()
        other.acquire()

    def latter():
        gone.wait()
        lock.acquire()
        lock.acquire()

    other.acquire()
    return start(former, latter)


def condition():
    lock = threading.Lock()
    entered = threading.Event()
    changed = threading.Condition(lock)

    def waiter():
        with lock:
            entered.set()
            changed.wait()

    def taker():
        entered.wait()
        lock.acquire()
        lock.acquire()

    return start(waiter, taker)


KINDS = {
    "abba": lambda: circle(threading.Lock, 2),
    "three": lambda: circle(threading.Lock, 3),
    "rlock": lambda: circle(threading.RLock, 2),
    "twice": twice,
    "released": released,
    "condition": condition,
}


def stuck(pid):
    calls = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/syscall") as file:
            calls.append(file.read().split())
    # for good: without a time-out, so that nobody is on the way to another wait
    return len(calls), all(call[0] == FUTEX and int(call[4], 16) == 0 for call in calls)


expected = KINDS[sys.argv[1]]()
parent = os.getpid()
if os.fork() == 0:
    last = None
    while True:
        with open(f"/proc/{parent}/stat") as file:
            used = file.read().split()[13:15]
        now = (stuck(parent), used)
        if now == last and now[0] == (expected, True):
            os.kill(parent, signal.SIGABRT)
            os._exit(0)
        last = now
        time.sleep(0.05)
never = threading.Lock()
never.acquire()
never.acquire()
