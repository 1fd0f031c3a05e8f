"""Dies of a read of address 0 below many kinds of Python calls (CPython 3.8 to 3.14).

The main thread's stack, outermost first: module, class body, exec'd code, lambda, comprehension,
recursion, generator, coroutine, key function of sorted(), callback through ctypes. The other
threads wait, one of them while it handles an exception.
"""

import asyncio
import ctypes
import functools
import os
import sys
import threading

DEPTH = int(os.environ.get("DEPTH", "30"))
THREADS = int(os.environ.get("THREADS", "3"))
ready = threading.Barrier(THREADS + 2)
never = threading.Event()


class DataError(ValueError):
    pass


class Loader:
    def __init__(self, path, size=3):
        self.path = path
        self.size = size

    def wait(self):
        ready.wait()
        never.wait()


class Started:
    def __init__(self, number):
        Loader(path=f"shard-{number:05}").wait()


def worker(number):
    Started(number)


def handles():
    try:
        try:
            open("/nonexistent/données.bin")
        except OSError as error:
            raise DataError("corrupt record at offset 8812") from error
    except DataError:
        ready.wait()
        never.wait()


def crash(value):
    text = "été"
    wide = "\u4e2d\u6587"
    widest = "\U0001f600"
    big = -(10**30)
    numbers = [1, 2.5, None, True]
    table = {"rank": 3, "name": b"raw\xff"}
    many = {1, 2, 3}
    cell = value

    def inner():
        return cell

    ctypes.string_at(0)


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def by_callback(value):
    @CALLBACK
    def called(number):
        crash(number)
        return 0

    called(value)


def key(value):
    if value == 2:
        by_callback(value)
    return value


async def innermost():
    sorted([1, 2, 3], key=key)


async def outer():
    await asyncio.sleep(0)
    await innermost()


def generator():
    yield 1
    asyncio.run(outer())
    yield 2


def delegating():
    yield from generator()


def recurse(depth):
    if depth:
        return recurse(depth - 1)
    return functools.reduce(lambda a, b: a + b, delegating())


def start():
    return [recurse(DEPTH) for _ in range(1)]


for n in range(THREADS):
    threading.Thread(target=worker, args=(n,), name=f"arbeiter-{n} é", daemon=True).start()
threading.Thread(target=handles, name="handles", daemon=True).start()
ready.wait()


class Body:
    namespace = {"start": start}  # noqa: RUF012
    exec(compile("def made():\n    start()\n\nmade()\n", "<string of données>", "exec"), namespace)
