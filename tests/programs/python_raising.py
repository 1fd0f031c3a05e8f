"""Dies while an exception is on its way to a handler: its unwinding drops an object that aborts."""

import ctypes

make = ctypes.pythonapi.PyCapsule_New
make.restype = ctypes.py_object
make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
ABORT = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p)


class LostError(LookupError):
    pass


def fail():
    raise LostError("shard", 3)


def step():
    try:
        return [make(1, None, ABORT), fail()]
    except KeyError:
        return []


step()
