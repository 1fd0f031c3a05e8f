"""The border of the scan: every function of the extension module `_scan`."""

from collections.abc import Callable, Sequence
from typing import Any, final, overload

@final
class ScanResult:
    """What one pass over a tensor found.

    Magnitudes are of the values' bits without their sign. Of complex numbers every count but
    `numel` is of components, and |x| is that of a component. Results are equal if all numbers
    and the data type are, where NaN is like NaN; they can be pickled and copied.
    """

    @property
    def abs_min(self) -> float: ...
    @property
    def abs_max(self) -> float: ...
    @property
    def abs_min_nonzero(self) -> float: ...
    @property
    def abs_max_finite(self) -> float: ...
    @property
    def nan_count(self) -> int: ...
    @property
    def inf_count(self) -> int: ...
    @property
    def zero_count(self) -> int: ...
    @property
    def subnormal_count(self) -> int: ...
    @property
    def numel(self) -> int: ...
    @property
    def first_nonfinite(self) -> int | None: ...
    @property
    def is_finite(self) -> bool: ...
    @property
    def ready(self) -> bool: ...
    @property
    def dtype(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Callable[..., ScanResult], tuple[object, ...]]: ...
    @staticmethod
    def _later(dtype: str, pending: Callable[[], tuple[int | float, ...]], /) -> ScanResult: ...

@final
class CallScans:
    """Scans tensors in memory, each once for as long as it does not change.

    What was scanned is known by address, layout and version while the tensor that was scanned is
    alive; a weak reference tells.
    """

    def __new__(cls, *args: object, **kwargs: object) -> CallScans: ...
    @property
    def scanned(self) -> int: ...
    @property
    def spared(self) -> int: ...
    @property
    def opaque(self) -> set[type]:
        """Types that hold no tensors: to be filled as they are found out."""

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any, into: list[Any], /
    ) -> int:
        """Add name and numbers, or a note in their place, of all inputs and outputs of a call.

        Returns twice the number of inputs, plus one if something is not finite; -1 if the call has
        to be looked at in Python (other types of tensors, of devices, of containers).
        """

    def numbers(self, tensor: Any, /) -> ScanResult | None:
        """Return a tensor's scan; None if it is no plain tensor in memory."""

    def weights(self, parameters: dict[str, Any], /) -> list[Any] | None:
        """Return names and numbers, in turns, of parameters that can be trained and are finite.

        None if one of them has to be looked at in Python.
        """

    def forget(self) -> None: ...

def write_records(
    ring: Any,
    first: int,
    capacity: int,
    written: int,
    front: tuple[float, int, int, int, int, int, dict[str, int]],
    names: dict[str, int],
    pairs: list[Any],
    begin: int,
    end: int,
    /,
) -> int | None:
    """Write records of a flight file for names and numbers that stand in turns in a list.

    `front`: time, batch, frame, module, kind, flags, codes of data types. Returns how many records
    were written in all, or None if a name is not among `names`.
    """

@overload
def fastscan(tensor: list[Any] | tuple[Any, ...], /) -> list[ScanResult]: ...
@overload
def fastscan(tensor: Any, /) -> ScanResult: ...
def _result(dtype: str, row: tuple[int | float, ...], /) -> ScanResult:
    """Make a result of its numbers again, for pickle."""

def scan_capsule(capsule: Any, /) -> ScanResult | None:
    """Scan a tensor in a capsule of DLPack; None where its device or data type is not known."""

def trust_type(type: type, capsule: Any, /) -> bool:
    """Read objects of exactly this type through the exchange API in the capsule from now on."""

def on_other(function: Callable[[Any], ScanResult], /) -> None:
    """Ask this function for all that the native scan does not know."""

def on_cuda(scanner: Any, /) -> None:
    """Hand tensors on GPUs to this capsule of `_cuda.scanner()` from now on."""

def scan_memory(
    address: int, *, dtype: str, shape: Sequence[int], strides: Sequence[int] | None = None
) -> ScanResult:
    """Scan an array at an address; strides count elements. ValueError if it is of no known kind."""

def scan_file(
    path: str,
    rows: Sequence[tuple[int, str, Sequence[int], Sequence[int] | None]],
    *,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[ScanResult | None], int]:
    """Scan tensors in a file, given as (offset in bytes, dtype, shape, strides), of any order.

    Returns a result for each, None for what does not lie inside the file, and how many pages could
    not be read (cut meanwhile, disk error), which count as zeros. `progress` hears of the bytes
    that are done. ValueError if the file cannot be mapped.
    """

def read_memory(address: int, bytes: int) -> None:
    """Read memory once and do nothing else: what a scan costs at least, for bench/."""

def levels() -> list[str]:
    """Return the instruction sets that this build and this processor have, the best first."""

def level() -> str:
    """Return the instruction set in use: $POSTMORTEM_SIMD, else the best."""

def use_level(name: str) -> None: ...
def threads() -> int:
    """Return how many threads share a large scan.

    $POSTMORTEM_THREADS, else $OMP_NUM_THREADS, else the processors of this process.
    """

def set_threads(count: int) -> None: ...
