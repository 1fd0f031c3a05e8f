"""How a process ended in which no access to memory failed: who sent the signal, and why."""

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.memory_words import access_words, place_words
from postmortem.facts.crash import Fault, Instruction, Signal
from postmortem.facts.memory import Modules
from postmortem.facts.process import CoreFile, Process
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


_ENDS = {
    FaultKind.PRIVILEGED_INSTRUCTION: "privileged instruction{at}{code}: only the kernel may "
    "execute it, so this is code for another environment (a driver, a bare-metal routine), a trap "
    "that a library chose, or data that was executed",
    FaultKind.TIMER: "{signal} came from a timer of the process itself (timer_create(2)): a "
    "watchdog or time limit that ran out; no instruction failed",
    FaultKind.COMPILER_TRAP: "the program stopped itself{at} with a trap instruction, which "
    "compilers put where code must never get to (a failed check, __builtin_trap, unreachable code)",
    FaultKind.BREAKPOINT: "a breakpoint or trap instruction was executed{at} with no debugger "
    "attached",
    FaultKind.ABORT: "the process aborted itself (abort() in its own code or a library)",
    FaultKind.SENT_FROM_ELSEWHERE: "{signal} came from elsewhere, from another process or "
    "thread: it hit a call that raises nothing, and a handler caught it and raised it again",
    FaultKind.SENT_BY_ITSELF: "the process sent {signal} to itself ({call}), from this thread or "
    "another: no instruction failed",
    FaultKind.TERMINAL_QUIT: "SIGQUIT came from the kernel: Ctrl-\\ on the terminal",
    FaultKind.KILLED_BY_KERNEL: "the kernel sent {signal}",
}
"""Ends that take one sentence, whatever else is known of them."""


def signal_words(
    kind: FaultKind, signal: Signal, fault: Fault | None, threads: Threads, process: Process
) -> str:
    """Return the end of a process in a sentence."""
    instruction = fault.instruction if fault is not None else None
    at = f" at {fault.pc.value:#x}" if fault is not None else ""
    if kind in _ENDS:
        call = _SENT_BY.get(signal.code or "", "kill(2)")
        return _ENDS[kind].format(at=at, code=_shown(instruction), signal=signal.name, call=call)
    match kind:
        case FaultKind.HARDWARE_MEMORY:
            place = f" at {signal.address:#x}" if signal.address is not None else ""
            return f"the memory hardware reported an uncorrectable error{place} ({signal.code})"
        case FaultKind.MISALIGNED:
            return _misaligned(signal, fault, at)
        case FaultKind.BUS_OTHER:
            return _bus_other(signal, fault)
        case FaultKind.ILLEGAL_INSTRUCTION:
            return f"illegal instruction{at}: {_instruction_words(instruction)}"
        case FaultKind.ARITHMETIC:
            return _arithmetic(signal, instruction) + at
        case FaultKind.SECCOMP:
            return _forbidden(signal, process)
        case FaultKind.RERAISED:
            return _sent_again(signal, threads)
        case FaultKind.RESOURCE_LIMIT:
            return _LIMITS.get(signal.name, "a resource limit of the process was reached")
        case FaultKind.KILLED_BY_PROCESS:
            return _killed(signal)
    code = f" ({signal.code})" if signal.code else ""
    return f"the process ended by {signal.name}{code}; the core does not say more"


def _misaligned(signal: Signal, fault: Fault | None, at: str) -> str:
    address = signal.address
    if address is None and fault is not None and fault.operand is not None:
        address = fault.operand.value
    if address == 0 and signal.code == "BUS_ADRALN":
        # x86 names no address for #AC; it comes only where the flag AC is set.
        return (
            f"misaligned access{at}: alignment checking is switched on in this thread (the flag AC "
            "of the processor)"
        )
    what = f" {address:#x}" if address is not None else " an address"
    return f"misaligned access: {access_words(fault)}{what}, which the instruction{at} refuses"


def _arithmetic(signal: Signal, instruction: Instruction | None) -> str:
    words = _ARITHMETIC.get(signal.code or "", "an arithmetic operation was trapped")
    divisor = instruction.divisor if instruction is not None else None
    if signal.code != "FPE_INTDIV" or divisor == 0:
        return words
    if divisor is None:
        return f"{words}, or the smallest integer by -1"
    return f"the result of an integer division by {divisor} does not fit"


def _forbidden(signal: Signal, process: Process) -> str:
    call = "a system call was made"
    if signal.system_call is not None:
        from postmortem.knowledge.syscalls import numbering  # few reports need it

        numbers = numbering(process.machine, signal.call_machine)
        call = f"system call {signal.system_call} ({numbers} numbering) was made"
    if signal.code == "SYS_USER_DISPATCH":
        return f"{call} while the process had switched its own dispatch of them on (prctl)"
    return f"{call} that the seccomp filter of the process forbids"


def _sent_again(signal: Signal, threads: Threads) -> str:
    crashed = threads.crashed
    if crashed is not None and crashed.handler_index is None:
        return (
            f"the process sent {signal.name} to itself, on purpose or from a handler whose frame "
            "cannot be read: no instruction of this stack failed as far as it shows"
        )
    return (
        f"a handler inside the process caught {signal.name} and sent it again, so the address of "
        "the fault is lost; the frames beyond the signal handler show where it happened"
    )


def _killed(signal: Signal) -> str:
    sender = f"process {signal.sender_pid}"
    if signal.sender_pid == 0:
        sender = "a process outside this container (its pid is not visible here)"
    uid = f" (user id {signal.sender_uid})" if signal.sender_uid is not None else ""
    return f"{sender}{uid} sent {signal.name}: the process did not fail by itself"


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


def saved_by(core: CoreFile, modules: Modules) -> str:
    """Return the name of the program that saved the core: ``"gcore"``, ``"createdump"``."""
    if core.origin == "gcore":
        return "gcore"
    # Its notes have no mark of its own; no other tool has a reason to write cores of .NET.
    is_dotnet = any(module.path.endswith("/libcoreclr.so") for module in modules)
    return "createdump" if is_dotnet else "a tool"
