"""How a process ended in which no access to memory failed: who sent the signal, and why."""

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.memory_words import access_words, place_words
from postmortem.facts.crash import Fault, Instruction, Signal
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


def signal_words(
    kind: FaultKind, signal: Signal, fault: Fault | None, threads: Threads, process: Process
) -> str:
    """Return the end of a process in a sentence."""
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
                from postmortem.knowledge.syscalls import numbering  # few reports need it

                numbers = numbering(process.machine, signal.call_machine)
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


def _shows_handler(threads: Threads) -> bool:
    """Return whether a signal frame is on the crashed stack, as gdb or the symbols name it."""
    crashed = threads.crashed
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
        return "zeroed memory was executed, which is not code of any processor"
    shown = instruction.text or " ".join(f"{byte:02x}" for byte in instruction.code)
    if instruction.feature:
        return f"{shown} needs {instruction.feature}, which this processor may not have"
    return f"{shown}, which this processor does not know"


def _shown(instruction: Instruction | None) -> str:
    if instruction is None or not instruction.code:
        return ""
    return f" ({instruction.text or ' '.join(f'{byte:02x}' for byte in instruction.code[:4])} …)"
