"""Threads in a deadlock of Python locks, or in what looks like one (CPython 3.8 to 3.13).

`python_deadlock.py KIND` sends itself SIGABRT from a child once the kernel shows all threads in
futex(2): abba, three, twice (one thread, one lock), rlock, released (a lock that was held before,
in a frame that lives on), condition (a Condition gave the lock back), acquired (RLocks without
`with`), plain (Locks without `with`), join (a thread joins one that needs its lock), chain (a lock,
whose holder waits for one whose holder reads a pipe), waits (one thread in each kind of wait).
"""

import concurrent.futures
import os
import queue
import signal
import sys
import threading
import time

FUTEX, READ = {"x86_64": ("202", "0"), "aarch64": ("98", "63")}[os.uname().machine]


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


def by_acquire(make):
    locks = [make(), make()]
    meet = threading.Barrier(2)

    def member(number):
        def taker():
            locks[number].acquire()
            meet.wait()
            locks[1 - number].acquire()

        taker.__name__ = f"taker{number}"
        return taker

    return start(member(0), member(1))


def join():
    lock = threading.RLock()
    taken = threading.Event()

    def worker():
        taken.wait()
        with lock:
            pass

    needed = threading.Thread(target=worker, name="worker", daemon=True)

    def joiner():
        with lock:
            needed.start()
            taken.set()
            needed.join()

    return start(joiner) + 1


def chain():
    outer, inner = threading.Lock(), threading.RLock()
    steps = [threading.Event(), threading.Event()]
    pipe = os.pipe()

    def reader():
        with inner:
            steps[0].set()
            os.read(pipe[0], 1)

    def between():
        steps[0].wait()
        with outer:
            steps[1].set()
            inner.acquire()

    def waiter():
        steps[1].wait()
        outer.acquire()

    return start(reader, between, waiter)


def waits():
    full = queue.Queue(1)
    full.put(1)
    unfinished = queue.Queue()
    unfinished.put(1)
    semaphore = threading.Semaphore(0)
    condition = threading.Condition()
    event, barrier = threading.Event(), threading.Barrier(2)
    future = concurrent.futures.Future()

    def waiting_condition():
        with condition:
            condition.wait()

    def waiting_for():
        with condition:
            condition.wait_for(lambda: False)

    def waiting_event():
        event.wait()

    def waiting_semaphore():
        with semaphore:
            pass

    def waiting_barrier():
        barrier.wait()

    def waiting_get():
        queue.Queue().get()

    def waiting_put():
        full.put(2)

    def waiting_done():
        unfinished.join()

    def waiting_future():
        future.result()

    return start(*(f for name, f in locals().items() if name.startswith("waiting_")))


KINDS = {
    "acquired": lambda: by_acquire(threading.RLock),
    "plain": lambda: by_acquire(threading.Lock),
    "join": join,
    "chain": chain,
    "waits": waits,
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
    waiting = [call for call in calls if call[0] == FUTEX and int(call[4], 16) == 0]
    return len(calls), len(waiting) + sum(call[0] == READ for call in calls) == len(calls)


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
