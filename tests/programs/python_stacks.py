"""Dies of a read of address 0 below many kinds of Python calls (CPython 3.8 to 3.14).

The main thread's stack, outermost first: module, class body, exec'd code, lambda, comprehension,
recursion, generator, coroutine, key function of sorted(), callback through ctypes. The other
threads wait, one of them while it handles an exception. What Python itself says of all that is
the last line on standard output, as JSON.
"""

import asyncio
import ctypes
import functools
import json
import os
import random
import sys
import threading
import time

DEPTH = int(os.environ.get("DEPTH", "30"))
THREADS = int(os.environ.get("THREADS", "3"))
never = threading.Lock()
never.acquire()


def stop():
    never.acquire()


def stack_of(frame):
    rows = []
    while frame:
        code = frame.f_code
        rows.append((getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return rows


def all_stand():
    mine = threading.get_ident()
    frames = {ident: frame for ident, frame in sys._current_frames().items() if ident != mine}
    return len(frames) == THREADS + 1 and all(f.f_code.co_name == "stop" for f in frames.values())


def tell(variables):
    while not all_stand():
        time.sleep(0.001)
    stacks = {ident: stack_of(frame) for ident, frame in sys._current_frames().items()}
    threads = [
        {"tid": t.native_id, "name": t.name, "frames": stacks[t.ident]}
        for t in threading.enumerate()
    ]
    variables = {name: repr(value) for name, value in variables.items()}
    told = {"version": sys.version.split()[0], "threads": threads, "locals": variables}
    print(json.dumps(told), flush=True)


class DataError(ValueError):
    pass


class Loader:
    def __init__(self, path, size=3):
        self.path = path
        self.size = size

    def wait(self):
        stop()


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
        stop()


def crash(value):
    text = "été"
    wide = "\u4e2d\u6587"
    widest = "\U0001f600"
    big = -(10**30)
    numbers = [1, 2.5, None, True]
    table = {"rank": 3, "name": b"raw\xff"}
    cell = value

    def inner():
        return cell

    simple = {name: value for name, value in locals().items() if name != "inner"}
    tell(simple)
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


def apply(function, *arguments):
    return function()


def layouts(last):
    """Calls through functions whose calls stand far from, before and between other lines."""
    chance = random.Random(8)
    for number in range(60):
        gap = "\n" * chance.choice((0, 1, 2, 3, 40, 130, 300, 2000))
        filler = "".join(
            f"    x{i} = {i} * len(str(f))\n" for i in range(chance.choice((0, 3, 90)))
        )
        body = chance.choice(
            (
                f"    return f()\n",
                f"    return apply(\n{gap}        f,{gap}\n        1)\n",
                f"    y = [1,{gap}\n        f(),{gap}\n        2]\n    return y\n",
                f"    try:\n        1 / 0{gap}\n    except ZeroDivisionError:{gap}\n        f()\n",
                f"    for i in range(1):{gap}\n        with lock:{gap}\n            yield_ = f()\n",
                f"    return (lambda:{gap} (\n{gap}        f()))()\n",
                f"    return [\n{gap}f() for i in [1] if\n{gap}i]\n",
                f"    return max(map(lambda z:\n{gap} f(), [1]),{gap}\n key=str)\n",
            )
        )
        source = f"{gap}def layout{number}(f, apply, lock):\n{gap}{filler}{body}"
        space = {}
        exec(compile(source, f"<layout {number}>", "exec"), space)
        inner = last
        last = functools.partial(space[f"layout{number}"], inner, apply, threading.Lock())
    last()


def start():
    return [layouts(functools.partial(recurse, DEPTH)) for _ in range(1)]


for n in range(THREADS):
    threading.Thread(target=worker, args=(n,), name=f"arbeiter-{n} é", daemon=True).start()
threading.Thread(target=handles, name="handles", daemon=True).start()


class Body:
    namespace = {"start": start}  # noqa: RUF012
    exec(compile("def made():\n    start()\n\nmade()\n", "<string of données>", "exec"), namespace)
