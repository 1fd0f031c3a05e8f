"""Dies of a read of address 0 in frames full of values that readers of cores print (3.8 to 3.14)."""

import collections
import ctypes
import threading

ready = threading.Barrier(3)


class Node:
    def __init__(self, depth):
        self.name = f"node-{depth}"
        self.child = Node(depth - 1) if depth else None


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self):
        self.left, self.right = "left", [1, 2, 3]


def waits(number):
    text = f"thread {number} ↯ " * 20
    cell = {"number": number}

    def inner():
        ready.wait()
        threading.Event().wait(600)
        return cell, text

    return inner()


def crash(depth, *rest, **named):
    if depth:
        return crash(depth - 1, *rest, **named)
    small, big, negative, huge = 7, 10**17, -(2**40), 3**2000
    numbers = list(range(50_000))
    nested = [[i, (i, str(i), {i: [i]})] for i in range(200)]
    table = {f"key {i}": {"value": i, "list": [i] * i} for i in range(300)}
    by_number = {i: Node(2) for i in range(40)}
    words = [f"wörd-{i}" for i in range(2000)]
    raw, text, wide = b"\x00\xff" * 500, "plain " * 4000, "\U0001f40d" * 3000
    ordered = collections.OrderedDict(a=1, b=[2], c="three")
    node, slotted, empty = Node(6), Slotted(), ([], (), {}, "", b"")
    many = {name: name for name in dir(ctypes)}
    flags, real, nothing = (True, False), 3.14159, None
    sets = {1, 2, 3}, frozenset("abc")
    ctypes.string_at(0)
    return locals()


if __name__ == "__main__":
    for i in range(2):
        threading.Thread(target=waits, args=(i,), name=f"waiting-{i}", daemon=True).start()
    ready.wait()
    crash(12, "positional", [1, 2], option={"a": "b"})
