"""Release a block by another family of functions than the one that gave it."""

import ctypes

api = ctypes.pythonapi
api.PyMem_RawMalloc.restype = ctypes.c_void_p
api.PyMem_RawMalloc.argtypes = [ctypes.c_size_t]
api.PyMem_Free.argtypes = [ctypes.c_void_p]
api.PyMem_Free(api.PyMem_RawMalloc(40))
