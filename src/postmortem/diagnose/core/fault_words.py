"""The end of a process in a sentence: what the signal and its addresses say, and no more."""

from postmortem import thresholds
from postmortem.diagnose.core.caught import aftermath
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.pointers import (
    is_canonical,
    lost_stack_pointer,
    number_as_pointer,
    small_pointer,
)
from postmortem.diagnose.core.poison import pointer_hint
from postmortem.diagnose.core.recursion import recursion
from postmortem.diagnose.core.stack_end import is_sp_lost
from postmortem.facts.crash import Fault, Instruction, Signal
from postmortem.facts.memory import Address, MappedFile
from postmortem.facts.process import Process
from postmortem.facts.threads import Threads

_ARITHMETIC = {
    "FPE_INTDIV": "an integer was divided by zero",
    "FPE_INTOVF": "an integer operation overflowed",
    "FPE_FLTDIV": "a floating-point division by zero was trapped",
    "FPE_FLTOVF": "a floating-point overflow was trapped",
    "FPE_FLTUND": "a floating-point underflow was trapped",
    "FPE_FLTRES": "an inexact floating-point result was trapped",
    "FPE_FLTINV": "an invalid floating-point operation was trapped",
}
_SENT_BY = {
    "SI_USER": "kill(2)",
    "SI_TKILL": "pthread_kill() or tgkill(2)",
    "SI_QUEUE": "sigqueue(3)",
}
_LIMITS = {
    "SIGXCPU": "the process used up its limit of processor time (RLIMIT_CPU, ulimit -t)",
    "SIGXFSZ": "the process wrote a file past its size limit (RLIMIT_FSIZE, ulimit -f)",
}


def explain(
    kind: FaultKind,
    signal: Signal | None,
    fault: Fault | None = None,
    threads: Threads | None = None,
    process: Process | None = None,
) -> str:
    """Return one or two sentences for a reader who does not know siginfo by heart."""
    text = _explain(kind, signal, fault, threads, process)
    return text if signal is None else text + aftermath(signal)


def _explain(
    kind: FaultKind,
    signal: Signal | None,
    fault: Fault | None,
    threads: Threads | None,
    process: Process | None,
) -> str:
    if kind is FaultKind.SNAPSHOT:
        return "a snapshot of a live process, as gcore makes it: not a crash"
    if signal is None:
        return "the core does not say which signal ended the process"
    if kind in _SEGV_WORDS:
        return _segmentation_fault(kind, signal, fault, threads)
    if kind in _FILE_KINDS and fault is not None and fault.file is not None:
        return _bus_error_in_file(kind, fault.file, signal)
    return _other(kind, signal, fault, threads, process)


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


def access_words(fault: Fault | None) -> str:
    """Return ``"read of"``, ``"write to"``, ``"jump to"`` or ``"access to"``."""
    access = fault.instruction.access if fault and fault.instruction else None
    return {"read": "read of", "write": "write to", "execute": "jump to"}.get(
        access or "", "access to"
    )


def size_words(count: int) -> str:
    """Return a number of bytes as people say it."""
    if count < 10_000:
        return count_words(count, "byte")
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} PiB"


def place_words(address: Address) -> str:
    """Return what lies at an address: ``"in the heap"``, ``"4096 bytes below a stack"``."""
    if address.mapped:
        what = address.path or address.kind or "a mapping"
        permissions = f" ({address.permissions})" if address.permissions else ""
        return f"in {what}{permissions}"
    parts = []
    below = None if address.below_end is None else address.value - address.below_end
    above = None if address.above_start is None else address.above_start - address.value
    if below == 0:
        parts.append("right at the end of the mapping below it")
    elif below is not None and 0 < below < thresholds.NEIGHBOUR_BYTES:
        parts.append(f"{size_words(below)} past the mapping below it")
    if above is not None and 0 <= above < thresholds.NEIGHBOUR_BYTES:
        kind = f" ({address.above_kind})" if address.above_kind else ""
        parts.append(f"{size_words(above)} before the mapping above it{kind}")
    return "where nothing is mapped" + (", " + " and ".join(parts) if parts else "")


def _segmentation_fault(
    kind: FaultKind, signal: Signal, fault: Fault | None, threads: Threads | None
) -> str:
    if kind is FaultKind.STACK_OVERFLOW:
        return _stack_overflow(signal, fault, threads)
    if kind is FaultKind.BAD_CALL:
        return _bad_call(signal, fault)
    if kind is FaultKind.GENERAL_PROTECTION:
        return (
            "general protection fault: the processor refused the instruction without naming an "
            "address (a non-canonical pointer, a misaligned vector access or a privileged "
            "instruction)"
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
                f"{verb} address {address:#x}: a member of a null object, or a number that is no "
                "pointer; the instruction is not in the core, so its registers do not tell"
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
        before = count_words(-number, "byte")
        return f"{text}: an error number, or an element {before} before a null pointer"
    return f"{text}, which looks like an error number" if number < 0 else text


def count_words(count: int, noun: str) -> str:
    """Return ``"1 byte"``, ``"2 bytes"``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _null_dereference(address: int, verb: str) -> str:
    if address == 0:
        return f"null pointer dereference: {verb} address 0x0"
    if address < 1 << 32:
        return (
            f"null pointer dereference: {verb} address {address:#x}, a member or element "
            f"{count_words(address, 'byte')} past a null pointer"
        )
    before = count_words((1 << 64) - address, "byte")
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
    return _with_hint(f"{word} to {pc:#x}{where}: no code is there", pc)


def _stack_overflow(signal: Signal, fault: Fault | None, threads: Threads | None) -> str:
    text = "stack overflow"
    above = fault.sp.above_start if fault is not None else None
    far = 0 if fault is None or above is None else above - fault.sp.value
    if fault is not None and signal.address is not None and is_sp_lost(fault) and far > 1 << 20:
        text += (
            f": {access_words(fault)} {signal.address:#x}; the stack pointer {fault.sp.value:#x} "
            f"itself is where nothing is mapped, {size_words(far)} below the next mapping"
        )
    elif fault is not None and signal.address is not None:
        text += f": {access_words(fault)} {signal.address:#x} just past the end of the stack"
        text += f" (stack pointer {fault.sp.value:#x})"
    elif fault is not None:
        text += f": the stack pointer {fault.sp.value:#x} is past the end of the stack"
    if fault is not None and fault.stack_limit and fault.stack_limit < 1 << 62:
        text += f"; the limit was {size_words(fault.stack_limit)}"
    crashed = threads.crashed if threads is not None else None
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


def _other(
    kind: FaultKind,
    signal: Signal,
    fault: Fault | None,
    threads: Threads | None,
    process: Process | None,
) -> str:
    instruction = fault.instruction if fault is not None else None
    at = f" at {fault.pc.value:#x}" if fault is not None else ""
    match kind:
        case FaultKind.HARDWARE_MEMORY:
            place = f" at {signal.address:#x}" if signal.address is not None else ""
            return f"the memory hardware reported an uncorrectable error{place} ({signal.code})"
        case FaultKind.MISALIGNED:
            address = signal.address
            if address is None and fault is not None and fault.operand is not None:
                address = fault.operand.value
            if address == 0 and signal.code == "BUS_ADRALN":
                # x86 names no address for #AC; it comes only where the flag AC is set.
                return (
                    f"misaligned access{at}: alignment checking is switched on in this thread "
                    "(the flag AC of the processor)"
                )
            what = f" {address:#x}" if address is not None else " an address"
            return (
                f"misaligned access: {access_words(fault)}{what}, which the instruction{at} refuses"
            )
        case FaultKind.BUS_OTHER:
            return _bus_other(signal, fault)
        case FaultKind.ILLEGAL_INSTRUCTION:
            return f"illegal instruction{at}: {_instruction_words(instruction)}"
        case FaultKind.PRIVILEGED_INSTRUCTION:
            shown = _shown(instruction)
            return (
                f"privileged instruction{at}{shown}: only the kernel may execute it, so this is "
                "code for another world (a driver, a bare-metal routine), a trap that a library "
                "chose, or data that was executed"
            )
        case FaultKind.TIMER:
            return (
                f"{signal.name} came from a timer of the process itself (timer_create(2)): a "
                "watchdog or time limit that ran out; no instruction failed"
            )
        case FaultKind.COMPILER_TRAP:
            return (
                f"the program stopped itself{at} with a trap instruction, which compilers put "
                "where code must never get to (a failed check, __builtin_trap, unreachable code)"
            )
        case FaultKind.ARITHMETIC:
            words = _ARITHMETIC.get(signal.code or "", "an arithmetic operation was trapped")
            divisor = instruction.divisor if instruction is not None else None
            if signal.code == "FPE_INTDIV" and divisor is None:
                words += ", or the smallest integer by -1"
            elif signal.code == "FPE_INTDIV" and divisor != 0:
                words = f"the result of an integer division by {divisor} does not fit"
            return f"{words}{at}"
        case FaultKind.BREAKPOINT:
            return f"a breakpoint or trap instruction was executed{at} with no debugger attached"
        case FaultKind.SECCOMP:
            call = "a system call was made"
            if signal.system_call is not None:
                machine = process.machine if process is not None else "x86_64"
                from postmortem.knowledge.syscalls import numbering  # few reports need it

                numbers = numbering(machine, signal.call_machine)
                call = f"system call {signal.system_call} ({numbers} numbering) was made"
            if signal.code == "SYS_USER_DISPATCH":
                return f"{call} while the process had switched its own dispatch of them on (prctl)"
            return f"{call} that the seccomp filter of the process forbids"
        case FaultKind.ABORT:
            return "the process aborted itself (abort() in its own code or a library)"
        case FaultKind.RERAISED if not _shows_handler(threads):
            return (
                f"the process sent {signal.name} to itself, on purpose or from a handler whose "
                "frame cannot be read: no instruction of this stack failed as far as it shows"
            )
        case FaultKind.RERAISED:
            return (
                f"a handler inside the process caught {signal.name} and sent it again, so the "
                "address of the fault is lost; the frames beyond the signal handler show where "
                "it happened"
            )
        case FaultKind.SENT_BY_ITSELF:
            how = _SENT_BY.get(signal.code or "", "kill(2)")
            return (
                f"the process sent {signal.name} to itself ({how}), from this thread or another: "
                "no instruction failed"
            )
        case FaultKind.RESOURCE_LIMIT:
            return _LIMITS.get(signal.name, "a resource limit of the process was reached")
        case _:
            return _sent(kind, signal)


def _sent(kind: FaultKind, signal: Signal) -> str:
    if kind is FaultKind.KILLED_BY_PROCESS:
        sender = f"process {signal.sender_pid}"
        if signal.sender_pid == 0:
            sender = "a process outside this container (its pid is not visible here)"
        uid = f" (user id {signal.sender_uid})" if signal.sender_uid is not None else ""
        return f"{sender}{uid} sent {signal.name}: the process did not fail by itself"
    if kind is FaultKind.TERMINAL_QUIT:
        return "SIGQUIT came from the kernel: Ctrl-\\ on the terminal"
    if kind is FaultKind.KILLED_BY_KERNEL:
        return f"the kernel sent {signal.name}"
    code = f" ({signal.code})" if signal.code else ""
    return f"the process ended by {signal.name}{code}; the core does not say more"


def _shows_handler(threads: Threads | None) -> bool:
    """Return whether a signal frame is on the crashed stack, as gdb or the symbols name it."""
    crashed = threads.crashed if threads is not None else None
    names = ("<signal handler called>", "__restore_rt", "__kernel_rt_sigreturn")
    return crashed is None or any(frame.function in names for frame in crashed.frames)


def _bus_other(signal: Signal, fault: Fault | None) -> str:
    place = fault.address if fault is not None else None
    if place is None:
        return "bus error: a page could not be provided; the core does not say of what"
    device = "; a device behind a mapping went away" if place.kind == "device" else ""
    return f"bus error: {access_words(fault)} {place.value:#x}, {place_words(place)}{device}"


def _instruction_words(instruction: Instruction | None) -> str:
    if instruction is None or not instruction.code:
        return "the bytes there cannot be read"
    if instruction.is_zeros:
        return "zeroed memory was executed, which is no code of any processor"
    shown = instruction.text or " ".join(f"{byte:02x}" for byte in instruction.code)
    if instruction.feature:
        return f"{shown} needs {instruction.feature}, which this processor may not have"
    return f"{shown}, which this processor does not know"


def _shown(instruction: Instruction | None) -> str:
    if instruction is None or not instruction.code:
        return ""
    return f" ({instruction.text or ' '.join(f'{byte:02x}' for byte in instruction.code[:4])} …)"


def _with_hint(text: str, pointer: int) -> str:
    hint = pointer_hint(pointer)
    if hint is None and not is_canonical(pointer):
        hint = pointer_hint(pointer & ((1 << 48) - 1))
    return text if hint is None else f"{text}; {hint}"
