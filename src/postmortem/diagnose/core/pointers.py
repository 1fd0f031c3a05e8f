"""What an address can be, and what the registers say of the pointer behind it."""

from postmortem.facts.crash import Fault, Signal
from postmortem.facts.memory import Address
from postmortem.patterns import Pattern

NULL_PAGE = 64 * 1024
"""Addresses below it are never mapped: `vm.mmap_min_addr` is 65536 on usual kernels."""

ADDRESS_SPACE = 1 << 64

POINTER_RULES = ("heap_corruption", "damaged_object")
"""Rules that say what made a pointer bad; others say only that it was."""

_OPERAND = Pattern(r"^(?P<base>[a-z]\w*)(?P<offset>[+-]0x[0-9a-f]+)?$|^0x[0-9a-f]+$")
_OF_STACK = Pattern(r"^(rsp|rbp|sp)\b")


def is_canonical(address: int, machine: str = "x86_64") -> bool:
    """Return whether an address can exist on that machine.

    x86-64 sign-extends 48 bits, of which a process has the lower half (Intel SDM 1, 3.3.7.1);
    aarch64 gives processes up to 52 bits, and their stacks do lie at 0xffff… of 48 bits
    (Documentation/arch/arm64/memory.rst).
    """
    half = 1 << (47 if machine == "x86_64" else 52)
    return address < half or address >= ADDRESS_SPACE - half


def is_executable(address: Address) -> bool:
    """Return whether the memory there may be executed, as far as its permissions are known."""
    return address.mapped and "x" in (address.permissions or "")


def is_null_based(address: int) -> bool:
    """Return whether an address is a small offset, forward or backward, from NULL."""
    return address < NULL_PAGE or address >= ADDRESS_SPACE - NULL_PAGE


def pointer_value(fault: Fault | None) -> int | None:
    """Return what the one register held that the faulting instruction took for a pointer.

    None where the address was made of two registers, or where the instruction is not decoded.
    """
    if fault is None or fault.operand is None or fault.instruction is None:
        return None
    found = _OPERAND.match(fault.instruction.operand or "")
    if found is None or found["base"] == "rip":
        return None
    if found["base"] is None:
        return 0  # the compiler knew that the pointer was null, and left the offset
    return (fault.operand.value - int(found["offset"] or "0", 16)) % ADDRESS_SPACE


def small_pointer(signal: Signal | None, fault: Fault | None) -> int | None:
    """Return what was used as a pointer, if it may have been small and not null.

    It may be the address of a member of a null object that was worked out before, or a number that
    never was a pointer: the registers do not tell which.
    """
    if signal is None or signal.address is None:
        return None
    if fault is not None and fault.operand is None and is_null_based(signal.address):
        # The code is not in the core: no register can be looked at.
        wraps = signal.address >= NULL_PAGE
        return (signal.address - ADDRESS_SPACE if wraps else signal.address) or None
    pointer = pointer_value(fault)
    if pointer is None or not 0 < pointer < NULL_PAGE or fault is None or fault.operand is None:
        return None
    return pointer if 0 <= signal.address - fault.operand.value < NULL_PAGE else None


def is_of_thread_pointer(fault: Fault | None) -> bool:
    """Return whether the address was made of the thread pointer, as that of a thread-local variable
    on x86-64: a thread that no library started has none."""
    operand = fault.instruction.operand if fault and fault.instruction else None
    return (operand or "").startswith(("fs:", "gs:"))


def number_as_pointer(signal: Signal | None, fault: Fault | None) -> int | None:
    """Return the small number that was used as a pointer instead of one; None for NULL itself.

    It shows by a register that holds -1 … -4095 (MAP_FAILED, an error number) or a number that no
    aligned member of an object can have for an offset.
    """
    pointer = pointer_value(fault)
    if pointer is None or signal is None or signal.address is None or not fault:
        return None
    if not fault.operand or not is_null_based(signal.address):
        return None
    if not 0 <= signal.address - fault.operand.value < NULL_PAGE:
        return None
    if pointer > ADDRESS_SPACE - 4096:
        return pointer - ADDRESS_SPACE
    return pointer if 0 < pointer < NULL_PAGE and pointer % 4 else None


def lost_stack_pointer(fault: Fault | None) -> str | None:
    """Return the register of the stack that the failed instruction used and that points nowhere."""
    operand = fault.instruction.operand if fault and fault.instruction else None
    found = _OF_STACK.match(operand or "")
    pointer = pointer_value(fault)
    if found is None or pointer is None:
        return None
    lost = is_null_based(pointer) or not is_canonical(pointer)
    if not lost and found[1] != "rbp" and fault is not None:
        lost = not fault.sp.mapped and pointer == fault.sp.value
    return found[1] if lost else None
