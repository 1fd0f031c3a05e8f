"""A worker of a process pool dies; its parent only says that the pool is broken."""

import ctypes
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool


def decode(sample: int) -> int:
    return len(ctypes.string_at(sample))


if __name__ == "__main__":
    with ProcessPoolExecutor(1) as pool:
        try:
            print(list(pool.map(decode, [0])))
        except BrokenProcessPool:
            sys.exit(-signal.SIGSEGV & 0xFF)
