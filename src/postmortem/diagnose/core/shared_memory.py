"""PyTorch's shared-memory segments, by their names."""

from postmortem.patterns import Pattern

_TORCH_SEGMENT = Pattern(r"^(/dev/shm|/run/shm)/torch_\d+_\w+")


def is_torch_segment(path: str) -> bool:
    """Return whether a file is a segment that PyTorch made to pass tensors between processes.

    They are called ``torch_<pid>_<number>[_<counter>]`` (torch/csrc/StorageSharing.cpp and
    aten/src/ATen/MapAllocator.cpp, `NewProcessWideShmHandle`).
    """
    return _TORCH_SEGMENT.match(path) is not None
