"""Whether a fault is the end of a stack: its address against the stack pointer and mappings.

And whether a core ends before the stack begins.
"""

from postmortem import thresholds
from postmortem.diagnose.core.pointers import is_null_based
from postmortem.diagnose.core.recursion import recursion
from postmortem.facts.crash import Fault, Signal
from postmortem.facts.memory import Address
from postmortem.facts.process import CoreFile
from postmortem.facts.threads import Thread, Threads

_PUSHED = 64
"""Bytes that one instruction may push."""
_PUSHED_FAR = 512
"""How far below the stack pointer stp of aarch64 writes before it moves it."""
STACK_REACH = 16 * 1024 * 1024
"""How far below the end of a stack, in bytes, one large frame can put the stack pointer."""
_LARGEST_FRAME = 1 << 31
"""Bytes that a frame can have: compilers reach its variables by displacements of 32 bits."""


def is_stack_overflow(signal: Signal, fault: Fault, threads: Threads) -> bool:
    """Return whether a SIGSEGV or SIGBUS came where a stack ends."""
    sp, address = fault.sp, fault.address
    if signal.code == "SI_KERNEL" or address is None:  # qemu writes no siginfo
        # The kernel could not push the frame of a signal handler (arch/x86/kernel/signal.c,
        # force_sigsegv): handlers without an alternate stack turn an overflow into this.
        if is_sp_lost(fault) and "stack" in (sp.above_kind or ""):
            return True
        if _is_used_up(sp):
            return True
        return any(_is_below_stack(at) or _is_guard(at) for at in (sp, _pushed_to(fault)))
    if is_past_handler_stack(fault):
        return True
    if _is_frame_larger_than_stack(sp, address):
        return True
    if not sp.value - thresholds.STACK_NEAR_BYTES <= address.value <= sp.value + STACK_REACH:
        return False
    if is_sp_lost(fault) and address.value <= sp.value + thresholds.STACK_NEAR_BYTES:
        return True
    if _is_below_stack(address):
        bottom = address.above_start or 0
        return sp.value <= bottom + thresholds.STACK_NEAR_BYTES
    if _is_guard(address):
        # Other guard pages exist (malloc arenas, allocators): the stack pointer must stand in
        # this one or in the mapping that begins where it ends.
        return (address.start or 0) <= sp.value <= (address.end or 0) + thresholds.STACK_NEAR_BYTES
    if signal.code == "SEGV_MAPERR" and "stack" in (address.kind or "") and address.mapped:
        # glibc 2.42 makes guards with MADV_GUARD_INSTALL: no mapping of their own.
        return address.value - (address.start or 0) <= thresholds.STACK_NEAR_BYTES
    if address.mapped:
        return False
    return abs(address.value - sp.value) <= thresholds.STACK_NEAR_BYTES and _recurses(threads)


def _is_used_up(sp: Address) -> bool:
    """Return whether a thread's stack has no room for what one instruction of aarch64 pushes.

    That of the main thread grows: its lowest page is always in use.
    """
    return sp.mapped and sp.kind == "thread stack" and sp.value - (sp.start or 0) <= _PUSHED_FAR


def _pushed_to(fault: Fault) -> Address:
    """Return where the instruction pushed to, right below the stack pointer, else that pointer."""
    at = fault.operand
    return at if at is not None and 0 < fault.sp.value - at.value <= _PUSHED else fault.sp


def is_past_handler_stack(fault: Fault) -> bool:
    """Return whether a handler used up the alternate stack that sigaltstack(2) gave it.

    Such stacks are small blocks, usually without a guard page: what lies below is overwritten until
    the first page that may not be written.
    """
    start, _ = fault.handler_stack or (0, 0)
    return (
        fault.address is not None
        and start - STACK_REACH <= fault.sp.value < start
        and fault.sp.value - thresholds.STACK_NEAR_BYTES <= fault.address.value < start
    )


def _is_frame_larger_than_stack(sp: Address, address: Address) -> bool:
    """Return whether one frame holds more than the stack does, and was touched from its top down.

    gcc and clang probe large arrays of variable length, and loops fill them backwards: the access
    is then just past the end of the stack, while the stack pointer is any distance below.
    """
    return (
        not sp.mapped
        and not is_null_based(sp.value)
        and sp.value < address.value
        and _is_below_stack(address)
        and sp.above_start == address.above_start
    )


def is_sp_lost(fault: Fault) -> bool:
    """Return whether the stack pointer itself is where nothing is mapped.

    One frame larger than the rest of the stack (a local array, alloca) jumps over any guard page.
    """
    sp = fault.sp
    if sp.mapped or sp.above_start is None or is_null_based(sp.value):
        return False
    return sp.above_start - sp.value <= _LARGEST_FRAME


def _is_below_stack(address: Address) -> bool:
    return (
        not address.mapped
        and "stack" in (address.above_kind or "")
        and address.above_start is not None
        and address.above_start - address.value <= STACK_REACH
    )


def _is_guard(address: Address) -> bool:
    return address.mapped and address.permissions is not None and address.permissions[:3] == "---"


def _recurses(threads: Threads) -> bool:
    crashed = threads.crashed
    return crashed is not None and recursion(crashed.frames) is not None


def has_lost_stack(core: CoreFile, thread: Thread | None) -> bool:
    """Return whether a core was cut before a thread's stack: the registers are all that is left."""
    if thread is None or not core.truncated or thread.stopped is None:
        return False
    return sum(not frame.inlined for frame in thread.frames) <= 1
