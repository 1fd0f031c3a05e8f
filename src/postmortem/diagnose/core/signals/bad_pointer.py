"""A pointer that is neither null nor valid was used.

What it means
    Native code touched memory that is not mapped, not a possible address, not permitted, or
    not aligned as the instruction demands. That the access failed is certain; who damaged the
    pointer often is not in the stack, because the damage is older than the crash.
How to be sure
    The address against the mappings, and what its value looks like (text, a freed-memory
    pattern, -1). The same crash at other places in other runs means damaged memory; always the
    same place means a bug there.
What to do
    Start at the first function of your own on the stack. If the place changes from run to run,
    run under AddressSanitizer or valgrind; for Python objects, PYTHONMALLOC=debug.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.pointers import POINTER_RULES, is_canonical, lost_stack_pointer
from postmortem.diagnose.core.poison import pointer_hint
from postmortem.diagnose.core.stacks import has_python, own_caller, place
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule
from postmortem.facts.crash import Fault, Signal
from postmortem.facts.memory import Address
from postmortem.facts.threads import Thread
from postmortem.patterns import Pattern
from postmortem.text import some

_OF_PYTHON = ("if Python objects are involved: PYTHONMALLOC=debug python …",)
_TITLES = {
    FaultKind.UNMAPPED: "access to unmapped memory",
    FaultKind.NON_CANONICAL: "access through a damaged pointer",
    FaultKind.NO_PERMISSION: "access that the memory's permissions forbid",
    FaultKind.MISALIGNED: "misaligned memory access",
    FaultKind.GENERAL_PROTECTION: "invalid memory access",
}
_CAUSES = {
    FaultKind.UNMAPPED: "The memory was freed and given back, an index is far outside its array, "
    "or something else has overwritten the pointer",
    FaultKind.NON_CANONICAL: "No such address can exist, so the pointer itself was overwritten or "
    "read from memory that is not a pointer: a buffer overrun, use after free, or an uninitialised "
    "variable",
    FaultKind.NO_PERMISSION: "The memory exists, but not for this: a write to constant data or to "
    "a read-only mapped file (an array over a read-only buffer), or a guard page next to a buffer",
    FaultKind.MISALIGNED: "Vector instructions demand addresses that are multiples of 16, 32 or "
    "64: a buffer from an allocator that aligns less, a pointer cast, or a stack that foreign code "
    "left misaligned",
    FaultKind.GENERAL_PROTECTION: "The pointer is damaged, a vector access was misaligned, or a "
    "signal handler was to run on a stack that is none; the evidence does not decide",
}

_REFUSED = (
    "It is not in the core, and no register holds what no address can be: a vector access was "
    "misaligned, or the instruction is a privileged one (hlt, with which musl ends a program whose "
    "heap is damaged)"
)
_LOW = (
    "The process has nothing that low: an element far behind a null pointer, a pointer of which "
    "only 32 bits are left (a 64-bit address that went through an int), or a number that never was "
    "a pointer"
)
_STRIDE = 64
"""The most bytes that one vector instruction writes: how far behind a start an overrun is seen."""
_RAN_INTO = (
    "That is the very start of a mapping: a copy or a loop that ran past the end of the memory "
    "before it comes to a stop exactly there"
)

_RAN_OUT = (
    "Memory ends right there: a copy or a loop that ran past the end of an array, through all that "
    "lay behind it; or memory that was given back"
)


@rule(
    "https://man7.org/linux/man-pages/man2/sigaction.2.html",
    "https://github.com/google/sanitizers/wiki/AddressSanitizer",
    yields_to=POINTER_RULES,
    yields_as=Role.CONTRIBUTING,
)
def bad_pointer(crash: Crash) -> Findings:
    if crash.kind not in _TITLES:
        return
    crashed = crash.crashed
    address = crash.signal.address
    if address is None and crash.fault is not None and crash.fault.operand is not None:
        address = crash.fault.operand.value
    if crash.kind is FaultKind.MISALIGNED and address == 0:
        address = None  # x86 names none
    shown = "" if address is None else f" (address {address:#x})"
    unsure = crash.kind is FaultKind.GENERAL_PROTECTION
    refused = unsure and crash.signal.code is not None
    unread = refused and _is_unread(crash.fault)
    odd = _odd_registers(crashed) if unread else {}
    title = _title(crash.kind, crash.fault)
    if unread and not odd:
        title = "the processor refused an instruction"
    if len(set(odd.values())) == 1:
        title = _TITLES[FaultKind.NON_CANONICAL]
        register, address = next(iter(odd.items()))
        shown = f" ({register} {address:#x})"
    hint = None if address is None else pointer_hint(address)
    yield Finding(
        title=f"{title}{shown}{place(crashed)}",
        cause=f"{crash.words}. "
        + (_REFUSED if unread and not odd else _cause(crash.kind, crash.signal, crash.fault))
        + _indexed(crash.kind, crash.fault, crashed)
        + _odd_words(odd),
        confidence=Confidence.POSSIBLE if unsure else Confidence.LIKELY,
        next_steps=(
            _look_at(crashed),
            "run a small case under AddressSanitizer (-fsanitize=address) or valgrind, which stop "
            "where the memory is damaged and not where it is used",
        )
        + (_OF_PYTHON if has_python(crash.threads) else ())
        + (
            (f"follow the trace in the address: {hint}",)
            if hint and hint not in crash.words
            else ()
        ),
        evidence=(crash.cited, *crash.way()),
    )


def _look_at(crashed: Thread) -> str:
    own, inner = own_caller(crashed), next(iter(crashed.frames), None)
    if inner is not None and own.startswith(f"{clip(inner.function, 40)} ("):
        return f"check where {own} gets the pointer from"
    return f"check the arguments that {own} passes on"


def _title(kind: FaultKind, fault: Fault | None) -> str:
    if _has_no_stack(kind, fault):
        return "the stack pointer is damaged"
    if kind is FaultKind.NO_PERMISSION and fault is not None and fault.address is not None:
        if (fault.address.permissions or "").startswith("---"):
            return "access to a guard page or reserved memory"
        if fault.instruction is not None and fault.instruction.access == "write":
            return "write to read-only memory"
    return _TITLES[kind]


def _has_no_stack(kind: FaultKind, fault: Fault | None) -> bool:
    if kind not in (FaultKind.UNMAPPED, FaultKind.NON_CANONICAL):
        return False
    return lost_stack_pointer(fault) is not None and not (fault is not None and fault.sp.mapped)


def _cause(kind: FaultKind, signal: Signal, fault: Fault | None) -> str:
    """Return what usually lies behind such an access, as far as the mapping narrows it down."""
    if lost_stack_pointer(fault) is not None and kind is not FaultKind.MISALIGNED:
        return (
            "A stack pointer or frame pointer goes wrong by hand-written assembly, a switch of "
            "stacks (coroutines, longjmp) that went to a dead one, or a buffer on the stack that "
            "was written past its end"
        )
    if kind is FaultKind.MISALIGNED and signal.code == "BUS_ADRALN" and signal.address == 0:
        return (
            "Ordinary code fails then too, wherever it stands: what is wrong is that something "
            "set the flag (popf, a debugging aid) and did not clear it"
        )
    place = fault.address if fault is not None else None
    if kind is FaultKind.GENERAL_PROTECTION and signal.code is None:
        return "The pointer is null, damaged, or leads to memory that may not be used so"
    if kind is FaultKind.UNMAPPED and place is not None and _is_low(place):
        return _LOW
    if kind is FaultKind.UNMAPPED and place is not None and _is_at_end(place):
        return _RAN_OUT
    if kind is not FaultKind.NO_PERMISSION or place is None:
        return _CAUSES[kind]
    if place.start is not None and place.value - place.start < _STRIDE:
        return _RAN_INTO
    if (place.permissions or "").startswith("---"):
        return (
            "Nobody may touch that memory: a guard page behind a buffer or a stack, which an index "
            "past the end runs into, or memory that an allocator has reserved or taken back"
        )
    if place.path and (fault and fault.instruction and fault.instruction.access == "write"):
        return (
            "What lies there came from a file and may not be written: a constant, a string "
            "literal, code, or a file that was mapped for reading only (an array over a read-only "
            "buffer)"
        )
    return _CAUSES[kind]


def _is_unread(fault: Fault | None) -> bool:
    return fault is not None and (fault.instruction is None or not fault.instruction.code)


def _odd_registers(thread: Thread) -> dict[str, int]:
    """Return the registers that hold no possible address, nor a count that a flag marks in its
    highest bit (PY_VECTORCALL_ARGUMENTS_OFFSET, in CPython's calls), nor what glibc's search for a
    symbol leaves in r10 and r11 (hashes)."""
    values = [(n, v) for n, v in (thread.registers or {}).items() if n not in ("r10", "r11")]
    return {n: v for n, v in values if not is_canonical(v) and v & ~(1 << 63) > 0xFFFF}


def _odd_words(odd: dict[str, int]) -> str:
    if not odd:
        return ""
    held = [f"{name} holds {value:#x}" for name, value in odd.items()]
    return f". The instruction is not in the core; {some(held, 3)}, which no address can be"


def _indexed(kind: FaultKind, fault: Fault | None, thread: Thread) -> str:
    """Return of which two registers the address was made: either may be the wrong one."""
    operand = fault.instruction.operand if fault is not None and fault.instruction else None
    found = _BASE_AND_INDEX.match(operand or "")
    if found is None or kind is not FaultKind.UNMAPPED:
        return ""
    base, index = thread.register(found["base"]), thread.register(found["index"])
    if base is None or not index:
        return ""
    count = index - (1 << 64) if index >> 63 else index
    return (
        f". The address was made of {found['base']}={base:#x} and an index, {found['index']}="
        f"{count}: where that base is a sound array, the index is what is wrong"
    )


_BASE_AND_INDEX = Pattern(
    r"^(?P<base>r\w+|x\d+)\+(?P<index>r\w+|x\d+)(\*[248])?([+-]0x[0-9a-f]+)?$"
)


def _is_low(place: Address) -> bool:
    """Whether no mapping lies below an address of 32 bits (a program at 0x400000 has some)."""
    return place.value < 1 << 32 and not place.mapped and place.below_end is None


def _is_at_end(place: Address) -> bool:
    end = place.below_end
    return end is not None and not place.mapped and 0 <= place.value - end < _STRIDE
