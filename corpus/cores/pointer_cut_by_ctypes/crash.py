"""malloc() through ctypes without restype: half of all pointers come back as negative numbers."""

import ctypes

libc = ctypes.CDLL(None)
SIZE = 1 << 26


def copy() -> None:
    address = 0
    while address >= 0:  # until the cut shows in the sign; the memory is never touched
        address = libc.malloc(SIZE)
    ctypes.memset(address, 0, SIZE)


copy()
