"""A GPU whose memory is taken: refused, with the reason."""

import ctypes

from postmortem.emulate.fault import CannotEmulate


def refuse() -> CannotEmulate:
    """Return why it is not done here."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        found = driver.cuInit(0) == 0
    except (OSError, AttributeError):
        found = False
    if not found:
        return CannotEmulate("there is no GPU here (no CUDA driver that finds one)")
    return CannotEmulate(
        "memory of a GPU is not taken yet; torch.cuda.set_per_process_memory_fraction limits a "
        "program of PyTorch"
    )
