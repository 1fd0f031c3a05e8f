"""What processes hold on GPUs, by NVIDIA's management library (NVML), where there is one.

Names and layouts are of nvml.h: functions are versioned, so that these stay what they are.
"""

import ctypes
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_MOST_PROCESSES = 1024
_MOST_GPUS = 64
_NOT_AVAILABLE = (1 << 64) - 1


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t of version 2 and 3 of the functions."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class Gpus:
    """The GPUs of this machine."""

    def __init__(self, library: str = _LIBRARY) -> None:
        self.why_not: str | None = None
        """Why nothing is known of GPUs."""
        self._handles: list[ctypes.c_void_p] = []
        try:
            self._nvml = ctypes.CDLL(library)
        except OSError:
            self.why_not = f"GPUs: there is no {library} here (it comes with NVIDIA's driver)"
            return
        code = self._call("nvmlInit_v2")
        if code != 0:
            self.why_not = f"GPUs: NVML does not start (error {code}): does the driver run?"
            return
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        for index in range(min(count.value, _MOST_GPUS)):
            handle = ctypes.c_void_p()
            index_of = ctypes.c_uint(index)
            if self._call("nvmlDeviceGetHandleByIndex_v2", index_of, ctypes.byref(handle)) == 0:
                self._handles.append(handle)
        if not self._handles:
            self.why_not = "GPUs: NVML sees none"

    def _call(self, name: str, *args: Any) -> int:
        try:
            return int(getattr(self._nvml, name)(*args))
        except AttributeError:
            return -1

    def by_process(self) -> dict[int, int]:
        """Return the bytes that each process holds on all GPUs, by its pid on the host."""
        found: dict[int, int] = {}
        for handle in self._handles:
            rows = (_Process * _MOST_PROCESSES)()
            count = ctypes.c_uint(_MOST_PROCESSES)
            for name in ("_v3", "_v2"):
                call = f"nvmlDeviceGetComputeRunningProcesses{name}"
                if self._call(call, handle, ctypes.byref(count), rows) == 0:
                    for row in rows[: min(count.value, _MOST_PROCESSES)]:
                        if row.used != _NOT_AVAILABLE:
                            found[row.pid] = found.get(row.pid, 0) + row.used
                    break
        return found
