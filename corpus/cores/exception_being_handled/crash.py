"""Reads an address that is not mapped, inside an except clause."""

import ctypes


def decode(data):
    raise ValueError("corrupt record at offset 8812")


def step():
    try:
        decode(b"")
    except ValueError:
        ctypes.string_at(0xDEAD000)


step()
