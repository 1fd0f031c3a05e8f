"""Ends the interpreter by Py_FatalError, as C code without the GIL does."""

import ctypes

ctypes.pythonapi.Py_FatalError(b"the function must be called with the GIL held")
