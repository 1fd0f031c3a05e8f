"""Two threads wait for each other's lock; the main thread aborts while it handles a KeyError."""

import os
import threading

first, second = threading.Lock(), threading.Lock()
both = threading.Barrier(3)


class Loader:
    def __init__(self, mine, other):
        self.mine, self.other = mine, other

    def fetch(self, shard):
        with self.mine:
            both.wait()
            with self.other:
                return shard


def checkpoint(step, name="épreuve"):
    state = {"step": step, "loss": 2.5}
    try:
        return state["lr"]
    except KeyError:
        os.abort()


def steps():
    for step in range(1000, 2000):
        yield checkpoint(step)


def waits_in_futex(tid):
    with open(f"/proc/self/task/{tid}/syscall") as file:
        return file.read().startswith(FUTEX)


FUTEX = {"x86_64": "202 ", "aarch64": "98 "}[os.uname().machine]
threads = [
    threading.Thread(target=Loader(first, second).fetch, args=(1,), name="forwards", daemon=True),
    threading.Thread(target=Loader(second, first).fetch, args=(2,), name="backwards", daemon=True),
]
for thread in threads:
    thread.start()
both.wait()
while not all(waits_in_futex(thread.native_id) for thread in threads):
    pass
list(steps())
