"""Calls the C API without the GIL, as C code does that forgot to take it."""

import ctypes

ctypes.CDLL(None).PyThreadState_Get()  # CDLL gives the GIL away for the time of a call
