"""What processes hold on GPUs, by NVIDIA's management library (NVML), where there is one."""

from __future__ import annotations

import ctypes


def gpu_note() -> str:
    """Return why nothing is said of GPUs."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return "GPUs: there is no libnvidia-ml.so.1 here (it comes with NVIDIA's driver)"
    return "GPUs: memory by process is not read yet; nvidia-smi shows it"
