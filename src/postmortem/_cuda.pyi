"""The border of the CUDA scan: every function of the extension module `_cuda`.

It is built only where CMake finds nvcc; `postmortem.scan.cuda` is its one caller.
"""

from collections.abc import Sequence
from typing import Any, final

@final
class Pending:
    """Numbers of a scan that may still be on a GPU.

    A call waits for this one record and for nothing else. RuntimeError if it will not come: the
    device gave up, the process is a child of a fork, the CUDA graph was not replayed.
    """

    def __call__(self) -> tuple[int | float, ...]: ...
    def ready(self) -> bool: ...

def probe() -> dict[str, Any]:
    """Return state, driver, runtime, devices and text: whether anything here can be used."""

def architectures() -> str:
    """Return the compute capabilities of the code in here: "75 80 90"."""

def prepare(device: int) -> str | None:
    """Make the state of a device, 6 MiB; return why it cannot be, if so.

    The first scan on a device does it otherwise, also while its stream is being captured.
    """

def scanner() -> Any:
    """Return the capsule that `_scan.on_cuda` takes."""

def scan_pointer(
    address: int,
    *,
    device: int,
    stream: int,
    dtype: str,
    shape: Sequence[int],
    strides: Sequence[int] | None = None,
    row: int = 0,
) -> Pending | None:
    """Launch the scan of a tensor on a stream of its device; strides count elements.

    `row`, if not 0, is the address of 8 doubles on the device, which are written too. None for more
    than 8 dimensions and for values that are not aligned, ValueError for what is of no known kind,
    RuntimeError where the launch fails.
    """
