"""What goes wrong between Python and C through libffi: cut pointers, callbacks that are gone."""

from collections.abc import Sequence

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.core.stacks import ctypes_index, fault_start, has_python
from postmortem.diagnose.names import bare
from postmortem.facts.crash import Fault, Signal
from postmortem.facts.threads import Frame, Threads
from postmortem.patterns import Pattern

_WITHIN = 8
_INT_MIN = 0xFFFF_FFFF_8000_0000
_NULL_PAGE = 0xFFFF_FFFF_FFFF_0000
_VARIANT = Pattern(
    r"^_*(?:GI_+)?((?:mem|str|wcs|wmem)[a-z]+)_(?:avx|sse|evex|ssse|erms|asimd|sve)\w*$"
)


def spoken(name: str) -> str:
    """Return a C function's name without the variant that glibc chose for this processor."""
    found = _VARIANT.match(bare(name))
    return found.group(1) if found else name


def cut_pointer(
    kind: FaultKind, signal: Signal | None, fault: Fault | None, threads: Threads
) -> int | None:
    """Return the address that was once 64 bits long and went through a C int, under ctypes.

    ctypes takes what a function returns for an int as long as restype is not set; the upper half
    is lost and the sign fills it (-1 in the upper half for half of all addresses). Other halves
    look like ordinary small addresses and cannot be told.
    """
    crashed = threads.crashed
    if crashed is None or signal is None or kind is not FaultKind.UNMAPPED:
        return None
    address = signal.address
    if address is None and fault is not None and fault.operand is not None:
        address = fault.operand.value
    if address is None or not _INT_MIN <= address < _NULL_PAGE:
        return None
    return None if ctypes_index(crashed, _WITHIN) is None else address


def dead_callback(kind: FaultKind, threads: Threads) -> int | None:
    """Return the index of the native frame that called a callback which libffi no longer has.

    A call from Python to C has ctypes' own frames outside libffi's; here native code stands there.
    """
    crashed = threads.crashed
    if crashed is None or not kind.is_memory_fault or not has_python(threads):
        return None
    start = index = fault_start(crashed, kind)
    while index < len(crashed.frames) and _of_closure(crashed.frames[index]):
        index += 1
    if index == start:
        return _damaged_callback(crashed.frames, start)
    if index >= len(crashed.frames):
        return None
    frame = crashed.frames[index]
    outward = (Owner.CPYTHON, Owner.LIBFFI)  # ctypes' own call of C
    if frame.kind == "python" or owner(frame) in outward or _is_ctypes(frame):
        return None
    return index


def _damaged_callback(frames: Sequence[Frame], start: int) -> int | None:
    """Return who called a callback on whose record ctypes itself fails (`CThunkObject`).

    libffi still had its closure, and ctypes' side of it was freed or used again.
    """
    index = start
    while index < len(frames) and _is_ctypes(frames[index]):
        index += 1
    closure = index
    while index < len(frames) and _of_closure(frames[index]):
        index += 1
    return index if start < closure < index < len(frames) else None


def _of_closure(frame: Frame) -> bool:
    return owner(frame) is Owner.LIBFFI and not bare(frame.function).startswith("ffi_call")


def _is_ctypes(frame: Frame) -> bool:
    name = file_name(frame.module)
    return "_ctypes" in name or "_cffi" in name
