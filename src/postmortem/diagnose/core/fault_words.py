"""The end of a process in a sentence: what the signal and its addresses say, and no more."""

from postmortem.diagnose.core.caught import aftermath
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.memory_words import access_words, place_words, size_words
from postmortem.diagnose.core.pointers import (
    is_canonical,
    is_executable,
    lost_stack_pointer,
    number_as_pointer,
    small_pointer,
)
from postmortem.diagnose.core.poison import pointer_hint
from postmortem.diagnose.core.recursion import recursion
from postmortem.diagnose.core.signal_words import signal_words
from postmortem.diagnose.core.stack_end import is_past_handler_stack, is_sp_lost
from postmortem.facts.crash import Fault, Signal
from postmortem.facts.memory import MappedFile
from postmortem.facts.process import Process
from postmortem.facts.threads import Threads
from postmortem.text import counted


def explain(
    kind: FaultKind, signal: Signal | None, fault: Fault | None, threads: Threads, process: Process
) -> str:
    """Return one or two sentences for a reader who does not know siginfo by heart."""
    text = _explain(kind, signal, fault, threads, process)
    return text if signal is None else text + aftermath(signal)


def _explain(
    kind: FaultKind, signal: Signal | None, fault: Fault | None, threads: Threads, process: Process
) -> str:
    if kind is FaultKind.SNAPSHOT:
        return "a snapshot of a live process, as gcore makes it: not a crash"
    if signal is None:
        return "the core does not say which signal ended the process"
    if kind in _SEGV_WORDS:
        return _segmentation_fault(kind, signal, fault, threads)
    if kind in _FILE_KINDS and fault is not None and fault.file is not None:
        return _bus_error_in_file(kind, fault.file, signal)
    return signal_words(kind, signal, fault, threads, process)


_SEGV_WORDS = {
    FaultKind.NULL_DEREFERENCE: "null pointer dereference",
    FaultKind.BAD_CALL: "jump to an address that holds no code",
    FaultKind.UNMAPPED: "access to an address where nothing is mapped",
    FaultKind.NON_CANONICAL: "access through a pointer that is not a valid address",
    FaultKind.NO_PERMISSION: "access that the mapping does not permit",
    FaultKind.GENERAL_PROTECTION: "general protection fault",
    FaultKind.STACK_OVERFLOW: "stack overflow",
}
_FILE_KINDS = frozenset(
    {FaultKind.FILE_TRUNCATED, FaultKind.FILE_GONE, FaultKind.FILE_UNREADABLE, FaultKind.NO_SPACE}
)


def _segmentation_fault(
    kind: FaultKind, signal: Signal, fault: Fault | None, threads: Threads
) -> str:
    if kind is FaultKind.STACK_OVERFLOW:
        return _stack_overflow(signal, fault, threads)
    if kind is FaultKind.BAD_CALL:
        return _bad_call(signal, fault)
    if kind is FaultKind.GENERAL_PROTECTION and signal.code is None:
        return (
            "memory fault at an address that is not known: the core holds no siginfo, and the "
            "instruction is not in it (or another process sent the signal)"
        )
    if kind is FaultKind.GENERAL_PROTECTION:
        return (
            "general protection fault, without an address: the processor refused the instruction "
            "(a non-canonical pointer, a misaligned vector access, a privileged instruction), or "
            "the kernel found no room for a signal handler's frame, or a damaged one"
        )
    if kind is FaultKind.NON_CANONICAL:
        return _non_canonical(signal, fault)
    address = signal.address or 0
    verb = access_words(fault)
    if kind is FaultKind.NULL_DEREFERENCE:
        number = number_as_pointer(signal, fault)
        if number is not None:
            return _number(number, address, verb)
        small = small_pointer(signal, fault)
        if small is not None and fault is not None and fault.operand is None:
            return (
                f"{verb} address {address:#x}: a member of a null object, or a number that is not "
                "a pointer; the instruction is not in the core, so its registers do not tell"
            )
        if small is not None:
            return (
                f"{verb} address {address:#x} through a pointer of {small:#x}: a member of a null "
                "object whose address was worked out before, or a number that is not a pointer"
            )
        return _null_dereference(address, verb) + _by_registers(signal)
    if lost_stack_pointer(fault) is not None and fault is not None and not fault.sp.mapped:
        return f"{verb} {address:#x}: the stack pointer itself is damaged ({fault.sp.value:#x})"
    if kind is FaultKind.NO_PERMISSION:
        where = f" {place_words(fault.address)}" if fault and fault.address else ""
        key = "; a memory protection key forbids it" if signal.code == "SEGV_PKUERR" else ""
        return f"{verb} {address:#x}{where}, which its permissions forbid{key}"
    where = place_words(fault.address) if fault and fault.address else "where nothing is mapped"
    return _with_hint(f"{verb} {address:#x}, {where}", address) + _by_registers(signal)


def _by_registers(signal: Signal) -> str:
    how = " (by the instruction and its registers: the core holds no siginfo)"
    return how if signal.inferred else ""


def _number(number: int, address: int, verb: str) -> str:
    text = f"{verb} address {address:#x}: the number {number} was used as a pointer"
    if number > 0 and (number + 1) % 4 == 0:
        return f"{text}; it may also be -1 (MAP_FAILED, an error) and {number + 1} bytes more"
    if number == -1:
        return f"{text}, as a failed mmap (MAP_FAILED), shmat or a call with an error returns"
    if number < 0 and number % 4 == 0:
        before = counted(-number, "byte")
        return f"{text}: an error number, or an element {before} before a null pointer"
    return f"{text}, which looks like an error number" if number < 0 else text


def _null_dereference(address: int, verb: str) -> str:
    if address == 0:
        return f"null pointer dereference: {verb} address 0x0"
    if address < 1 << 32:
        return (
            f"null pointer dereference: {verb} address {address:#x}, a member or element "
            f"{counted(address, 'byte')} past a null pointer"
        )
    before = counted((1 << 64) - address, "byte")
    return _with_hint(
        f"null pointer dereference: {verb} address {address:#x}, {before} before address 0", address
    )


def _non_canonical(signal: Signal, fault: Fault | None) -> str:
    address = signal.address
    how = ""
    if address is None and fault is not None and fault.operand is not None:
        address = fault.operand.value
        operand = fault.instruction.operand if fault.instruction else None
        how = f" (from the registers: {operand})" if operand else " (from the registers)"
    if address is None:
        return "access through a pointer that is not a valid address of this processor"
    register = lost_stack_pointer(fault)
    if register is not None:
        how += f"; {register} belongs to the stack and was overwritten"
    text = (
        f"{access_words(fault)} {address:#x}{how}, which is not a valid (canonical) address: the "
        "pointer itself is damaged"
    )
    return _with_hint(text, address)


def bad_target(signal: Signal, fault: Fault | None) -> int:
    """Return the address that a bad call, jump or return went to.

    The processor refuses one that is not canonical before it goes there.
    """
    if fault is None:
        return signal.address or 0
    instruction = fault.instruction
    if signal.code == "SI_KERNEL" and is_canonical(fault.pc.value) and instruction is not None:
        return fault.pc.value if instruction.target is None else instruction.target
    return fault.pc.value


def _bad_call(signal: Signal, fault: Fault | None) -> str:
    pc = bad_target(signal, fault)
    instruction = fault.instruction if fault is not None else None
    if fault is not None and pc != fault.pc.value and instruction is not None:
        return _with_hint(
            f"{instruction.transfer} to {pc:#x}, which is not a valid (canonical) address; the "
            f"instruction stands at {fault.pc.value:#x}",
            pc,
        )
    word = "return" if instruction is not None and instruction.transfer == "return" else "jump"
    if pc == 0 and word != "return":
        return (
            "call through a null function pointer: the program counter is 0x0, where there is no "
            "code"
        )
    if pc < 1 << 16:
        return f"{word} to {pc:#x}: a null pointer or a small number, where there is no code"
    where = f", {place_words(fault.pc)}" if fault is not None else ""
    if fault is not None and is_executable(fault.pc):
        return f"what lies at {pc:#x}{where} ran as code: memory for data, though executable"
    return _with_hint(f"{word} to {pc:#x}{where}: no code is there", pc)


def _stack_overflow(signal: Signal, fault: Fault | None, threads: Threads) -> str:
    text = "stack overflow"
    above = fault.sp.above_start if fault is not None else None
    far = 0 if fault is None or above is None else above - fault.sp.value
    if fault is not None and signal.address is not None and is_sp_lost(fault) and far > 1 << 20:
        text += (
            f": {access_words(fault)} {signal.address:#x}; the stack pointer {fault.sp.value:#x} "
            f"itself is where nothing is mapped, {size_words(far)} below the next mapping"
        )
    elif fault is not None and signal.address is not None:
        past = "just past the end of the stack"
        if fault.handler_stack is not None and is_past_handler_stack(fault):
            size = size_words(fault.handler_stack[1])
            past = f"past the end of the handlers' alternate stack (sigaltstack, {size})"
        text += f": {access_words(fault)} {signal.address:#x} {past}"
        text += f" (stack pointer {fault.sp.value:#x})"
    elif fault is not None:
        where = "at" if fault.sp.mapped else "past"
        text += f": the stack pointer {fault.sp.value:#x} is {where} the end of the stack"
    if fault is not None and fault.stack_limit and fault.stack_limit < 1 << 62:
        text += f"; the limit was {size_words(fault.stack_limit)}"
    crashed = threads.crashed
    cycle = recursion(crashed.frames) if crashed is not None else None
    if cycle is not None:
        text += f"; at least {cycle.frames} frames of the same recursion"
    return text


def _bus_error_in_file(kind: FaultKind, file: MappedFile, signal: Signal) -> str:
    at = f" (address {signal.address:#x})" if signal.address is not None else ""
    start = f"access to a mapped file at offset {file.offset}: {file.path}{at}"
    if kind is FaultKind.FILE_TRUNCATED:
        return (
            f"{start}; the file is {file.size} bytes long now, shorter than that (its state is "
            "that of now, not of the crash)"
        )
    if kind is FaultKind.FILE_GONE:
        when = "it was deleted before the crash" if file.deleted_then else "it is not there now"
        return f"{start}; the page could not be read, and {when}"
    if file.path.startswith("/memfd:"):
        return (
            f"{start}; there was no page: it was made shorter after it was mapped, never had that "
            "length, or no huge page was left for it"
        )
    if kind is FaultKind.FILE_UNREADABLE and file.elsewhere:
        return (
            f"{start}; the page could not be read: the file ended before it, was removed on its "
            "server, or its storage gave an error (the core is of another machine, where the file "
            "can be looked at)"
        )
    if kind is FaultKind.NO_SPACE:
        return f"{start}; the file system could not give the page: it was full{_free_now(file)}"
    return (
        f"{start}; the page could not be read although the file is long enough now: an input or "
        "output error of its file system, or the file was shorter then"
    )


def _free_now(file: MappedFile) -> str:
    if file.filesystem_free is None:
        return ", or the memory limit of its container was reached"
    size = f" of {size_words(file.filesystem_size)}" if file.filesystem_size else ""
    return (
        f", or the memory limit of its container was reached ({size_words(file.filesystem_free)}"
        f"{size} are free now, after the crash)"
    )


def _with_hint(text: str, pointer: int) -> str:
    hint = pointer_hint(pointer)
    if hint is None and not is_canonical(pointer):
        hint = pointer_hint(pointer & ((1 << 48) - 1))
    return text if hint is None else f"{text}; {hint}"
