"""PyTorch's shared-memory segments, by their names; whether one can have been too large."""

from postmortem.facts.crash import Fault
from postmortem.patterns import Pattern

_TORCH_SEGMENT = Pattern(r"^(/dev/shm|/run/shm)/torch_\d+_\w+")


def is_torch_segment(path: str) -> bool:
    """Return whether a file is a segment that PyTorch made to pass tensors between processes.

    They are called ``torch_<pid>_<number>[_<counter>]`` (torch/csrc/StorageSharing.cpp and
    aten/src/ATen/MapAllocator.cpp, `NewProcessWideShmHandle`).
    """
    return _TORCH_SEGMENT.match(path) is not None


def is_read(fault: Fault) -> bool:
    """Return whether memory was read: what is read was mostly written before, and a page that was
    written stays until somebody makes the file shorter."""
    return fault.instruction is not None and fault.instruction.access == "read"
