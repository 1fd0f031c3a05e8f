"""One fused pass over tensors: extremes, NaN, Inf, zeros and subnormals.

``from postmortem import fastscan`` is the way in. PyTorch and NumPy are not imported here: whoever
has a tensor of theirs has imported them already.
"""

from postmortem._scan import (
    CallScans,
    ScanResult,
    fastscan,
    level,
    levels,
    set_threads,
    threads,
    use_level,
)
from postmortem.scan.tensor_adapters import install

__all__ = [
    "CallScans", "ScanResult", "fastscan", "level", "levels", "set_threads", "threads", "use_level",
]  # fmt: skip

install()
