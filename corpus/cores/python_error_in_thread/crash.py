"""A callback fails on a thread of native code, which does not catch Python's errors."""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])  # lets go of the GIL


def on_batch() -> float:
    return 1 / 0


library.run_in_thread(ctypes.py_object(on_batch))
