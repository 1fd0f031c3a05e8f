"""What the kernel and the run-time libraries say about the end of the process."""

from __future__ import annotations

from collections.abc import Iterable

from postmortem.facts.memory import Address, MappedFile
from postmortem.facts.signature import Known, Match
from postmortem.records import record
from postmortem.text import Pointer

INSTRUCTION_SIGNALS = frozenset({"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP"})
"""That an instruction raises; in all others it is only where the signal came."""
FAULT_SIGNALS = INSTRUCTION_SIGNALS | {"SIGSYS"}
"""That what a thread does itself raises: an instruction, or a call that is forbidden."""
CRASH_SIGNALS = FAULT_SIGNALS | {"SIGABRT"}
"""By which a program ends that did what it may not, or gave up; all leave a core (signal(7))."""


@record
class Signal:
    """The fatal signal as siginfo_t has it (signal.h, include/uapi/asm-generic/siginfo.h)."""

    number: int
    name: str
    code_number: int | None = None
    code: str | None = None
    """``"SEGV_MAPERR"``, ``"SI_TKILL"`` …; None if the core has no siginfo."""
    address: Pointer | None = None
    """Only for faults, and never for SI_KERNEL, which has none. 0 is an address."""
    sender_pid: int | None = None
    sender_uid: int | None = None
    system_call: int | None = None
    """The call that a seccomp filter forbade, by its number."""
    call_machine: int | None = None
    """Whose numbers these are, as AUDIT_ARCH_… of linux/audit.h: a 64-bit process may use those of
    32 bits. None where the core does not say."""
    inferred: bool = False
    """Whether `address` is what the instruction would have touched: the core has no siginfo."""
    then: Signal | None = None
    """The signal that ended the process, where a handler of the process caught this one first."""


_ZEROS = 4


@record
class Instruction:
    """The instruction that the crashed thread was at, decoded as far as a diagnosis needs it."""

    pc: Pointer
    code: bytes
    """Up to 16 bytes at `pc`; empty when they cannot be read."""
    text: str | None = None
    """gdb's disassembly."""
    operand: str | None = None
    """Its memory operand in words of registers, as ``"rax+0x10"``."""
    operand_address: Pointer | None = None
    access: str | None = None
    """``"read"``, ``"write"``, ``"execute"`` or None if not decoded."""
    feature: str | None = None
    """What its encoding needs of the CPU (``"AVX-512"``), ``"trap"`` for ud2, brk …, or
    ``"privileged"`` for what only the kernel may execute."""
    target: int | None = None
    """Where an indirect call, a jump or a return at `pc` goes."""
    transfer: str | None = None
    """``"call"``, ``"jump"`` or ``"return"``: what `target` belongs to."""
    divisor: int | None = None
    """What an integer division divided by, read as a signed number of its size."""
    alignment: int = 0
    """Bytes that the operand's address must be a multiple of; 0 if any will do, or unknown."""

    @property
    def is_zeros(self) -> bool:
        """Whether zeroed memory stands there, which aarch64 refuses as `udf #0`."""
        return len(self.code) >= _ZEROS and not any(self.code[:_ZEROS])


@record
class Fault:
    """Where the crashed thread stood and what it touched."""

    pc: Address
    sp: Address
    address: Address | None = None
    """The fault address; None for signals that have none."""
    operand: Address | None = None
    instruction: Instruction | None = None
    file: MappedFile | None = None
    """The file under the fault address, if a file was mapped there."""
    stack_limit: int | None = None
    """RLIMIT_STACK of the process as far as known, in bytes."""
    handler_stack: tuple[int, int] | None = None
    """Start and size of the alternate stack (sigaltstack) on which the thread ran a handler."""


@record
class AbortMessage(Known):
    """What glibc printed before it aborted (`__abort_msg`)."""

    text: str
    of_this_end: bool = True
    """Whether the stack shows so: glibc keeps its last words for ever, and an abort can be left."""
    matches: tuple[Match, ...] = ()


@record
class FatalPythonError(Known):
    """What CPython wrote to standard error when it stopped itself (Py_FatalError)."""

    function: str
    """The one that found the state of the interpreter broken; empty where that is not known."""
    message: str
    """Cut where it ends with an ellipsis; empty where its text is in a file that is not here."""
    matches: tuple[Match, ...] = ()


@record
class Panic(Known):
    """What a language's run-time said when it ended the process, as its memory still has it."""

    language: str
    """``"C"`` (of a check, in C++ too), ``"Go"``, ``"Rust"``, ``".NET"``, ``"JavaScript"``."""
    text: str
    """May have several lines: .NET and V8 put the methods behind the message."""
    matches: tuple[Match, ...] = ()

    @property
    def head(self) -> str:
        """The first line."""
        return self.text.split("\n", 1)[0].rstrip()


@record
class CppException(Known):
    """A C++ exception in flight."""

    tid: int
    type: str
    """Demangled; ``"(unknown type)"`` where the library that defines it is not at hand."""
    what: str | None
    """Its message; None when the type's layout is not known."""
    found_by: str
    """``"tls"`` (the runtime library's own record) or ``"stack"`` (a pointer found on it)."""
    base_types: tuple[str, ...] = ()
    state: str = "uncaught"
    """``"uncaught"`` (std::terminate() ran because of it), ``"unwinding"`` (destructors were
    running on its way to a handler) or ``"handled"`` (a handler was running: context)."""
    matches: tuple[Match, ...] = ()


@record
class EarlierExceptions:
    """C++ exceptions of the crashed thread that are older than what ended the process.

    Those still on their way first, then those being handled, innermost first.
    """

    items: tuple[CppException, ...]


def earlier_exceptions(
    exceptions: Iterable[CppException], tid: int | None
) -> EarlierExceptions | None:
    """Return those of thread `tid` that did not end the process, or None where there are none."""
    own = [exception for exception in exceptions if exception.tid == tid]
    flying = [exception for exception in own if exception.state == "unwinding"]
    handled = [exception for exception in own if exception.state == "handled"]
    return EarlierExceptions((*flying, *handled)) if flying or handled else None


@record
class Caught:
    """The signal that a handler of the process was called for, from the kernel's signal frame."""

    signal: Signal
    fault: Fault | None
    in_handler: bool
    """Whether the handler's frames are on the stack; else it had returned."""
