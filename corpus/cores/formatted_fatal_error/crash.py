"""Delete the thread state that this thread runs on: CPython formats what it says."""

import ctypes

api = ctypes.pythonapi
api.PyThreadState_Get.restype = ctypes.c_void_p
api.PyThreadState_Delete.argtypes = [ctypes.c_void_p]
api.PyThreadState_Delete(api.PyThreadState_Get())
