"""How the end of a process is classified and said, edge by edge."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.prose import Prose
from postmortem.diagnose.core.fault_kind import FaultKind, classify
from postmortem.diagnose.core.fault_words import explain as explain_end
from postmortem.diagnose.core.memory_words import size_words
from postmortem.diagnose.core.pointers import is_canonical
from postmortem.diagnose.core.poison import pointer_hint
from postmortem.diagnose.core.recursion import recursion
from postmortem.facts.crash import Fault, Instruction, Signal
from postmortem.facts.memory import Address, MappedFile
from postmortem.facts.process import CoreFile, Process
from postmortem.facts.threads import Frame, Thread, Threads

CODE = Address(0x401000, True, 0x400000, 0x500000, "r-x", "module")
STACK = Address(0x7FFF_F000, True, 0x7FF0_0000, 0x8000_0000, "rw-", "stack")
PROCESS = Process(pid=10, machine="x86_64")
CORE = CoreFile("core", "kernel", 1, 1)
NO_THREADS = Threads((), 10)


def segv(address: int | None, code: str = "SEGV_MAPERR") -> Signal:
    return Signal(11, "SIGSEGV", code=code, address=address)


def explain(
    kind: FaultKind, signal: Signal, fault: Fault | None = None, threads: Threads = NO_THREADS
) -> str:
    return explain_end(kind, signal, fault, threads, PROCESS)


def kind(signal: Signal, fault: Fault | None = None, threads: Threads = NO_THREADS) -> FaultKind:
    return classify(signal, fault, threads, CORE, PROCESS)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (0, FaultKind.NULL_DEREFERENCE),
        (0xFFFF, FaultKind.NULL_DEREFERENCE),
        (0x10000, FaultKind.UNMAPPED),
        ((1 << 64) - 1, FaultKind.NULL_DEREFERENCE),
        ((1 << 64) - 0x10000, FaultKind.NULL_DEREFERENCE),
        ((1 << 64) - 0x10001, FaultKind.UNMAPPED),
        ((1 << 47) - 1, FaultKind.UNMAPPED),
        (1 << 47, FaultKind.NON_CANONICAL),
    ],
)
def test_null_is_an_address_and_reaches_64_kib_each_way(address: int, expected: FaultKind) -> None:
    assert kind(segv(address)) is expected


def test_a_general_protection_fault_has_no_address_and_the_operand_tells() -> None:
    signal = segv(None, "SI_KERNEL")
    assert kind(signal) is FaultKind.GENERAL_PROTECTION
    wild = Fault(CODE, STACK, operand=Address(0xDEAD_BEEF_0000_0000, False))
    assert kind(signal, wild) is FaultKind.NON_CANONICAL
    store = Instruction(CODE.value, b"", alignment=16)
    odd = Fault(CODE, STACK, operand=Address(0x7000_0008, True), instruction=store)
    assert kind(signal, odd) is FaultKind.MISALIGNED
    good = Fault(CODE, STACK, operand=Address(0x7000_0010, True), instruction=store)
    assert kind(signal, good) is FaultKind.GENERAL_PROTECTION
    push = replace(odd, instruction=Instruction(CODE.value, b""))
    assert kind(signal, push) is FaultKind.GENERAL_PROTECTION


@pytest.mark.parametrize(
    ("pid", "function", "rax", "expected"),
    [
        (10, "abort", 0, FaultKind.ABORT),
        (1, "??", 0, FaultKind.ABORT),
        (10, "??", 0, FaultKind.GENERAL_PROTECTION),
        (1, "memcpy", 0, FaultKind.GENERAL_PROTECTION),
        (1, "??", 0x4141_4141_4141_4141, FaultKind.GENERAL_PROTECTION),
    ],
)
def test_abort_of_the_first_process_of_a_container_ends_by_hlt(pid, function, rax, expected):
    frame = Frame(function, module="/lib/libc.so.6")
    threads = Threads((Thread(pid, crashed=True, frames=(frame,), registers={"rax": rax}),), pid)
    process = Process(pid=pid, machine="x86_64")
    fault = Fault(CODE, STACK)
    assert classify(segv(None, "SI_KERNEL"), fault, threads, CORE, process) is expected


def test_a_jump_that_the_processor_refuses_is_a_bad_call_and_no_access() -> None:
    back = Instruction(CODE.value, b"", target=0x4141_4141_4141_4141, transfer="return")
    stands_at_ret = Fault(CODE, STACK, operand=Address(0x7000_0008, True), instruction=back)
    assert kind(segv(None, "SI_KERNEL"), stands_at_ret) is FaultKind.BAD_CALL
    fine = replace(stands_at_ret, instruction=replace(back, target=CODE.value))
    assert kind(segv(None, "SI_KERNEL"), fine) is FaultKind.GENERAL_PROTECTION


def test_an_address_of_48_bits_is_good_on_aarch64_only() -> None:
    signal = segv(0xFFFF_8000_0000)
    assert classify(signal, None, NO_THREADS, CORE, PROCESS) is FaultKind.NON_CANONICAL
    other = Process(pid=10, machine="aarch64")
    assert classify(signal, None, NO_THREADS, CORE, other) is FaultKind.UNMAPPED


def test_an_unknown_operand_never_becomes_a_null_pointer() -> None:
    assert "null" not in explain(FaultKind.GENERAL_PROTECTION, segv(None, "SI_KERNEL"))


def below(distance: int) -> Address:
    end = 0x7FF0_0000
    return Address(end - distance, False, above_start=end, above_kind="thread stack")


def test_an_overflow_needs_the_stack_pointer_near_the_end_of_its_stack() -> None:
    at_end = Address(0x7FF0_0010, True, 0x7FF0_0000, 0x8000_0000, "rw-", "thread stack")
    assert kind(segv(below(8).value), Fault(CODE, at_end, below(8))) is FaultKind.STACK_OVERFLOW
    # The same address, but the thread stands in the middle of its stack: a wild pointer.
    middle = Address(0x7FF8_0000, True, 0x7FF0_0000, 0x8000_0000, "rw-", "thread stack")
    assert kind(segv(below(8).value), Fault(CODE, middle, below(8))) is FaultKind.UNMAPPED


def test_a_guard_region_without_a_mapping_of_its_own() -> None:
    address = Address(0x7FF0_0800, True, 0x7FF0_0000, 0x8000_0000, "rw-", "thread stack")
    sp = Address(0x7FF0_0820, True, 0x7FF0_0000, 0x8000_0000, "rw-", "thread stack")
    assert kind(segv(address.value), Fault(CODE, sp, address)) is FaultKind.STACK_OVERFLOW


def test_without_siginfo_the_stack_pointer_tells() -> None:
    guard = Address(0x7FF0_0800, True, 0x7FF0_0000, 0x7FF0_1000, "---", "anonymous")
    silent = Signal(11, "SIGSEGV")
    assert kind(silent, Fault(CODE, guard)) is FaultKind.STACK_OVERFLOW
    used_up = Address(0x7FF0_0010, True, 0x7FF0_0000, 0x8000_0000, "rw-", "thread stack")
    assert kind(silent, Fault(CODE, used_up)) is FaultKind.STACK_OVERFLOW
    growing = replace(used_up, kind="stack")  # the lowest page of the main thread's is in use
    assert kind(silent, Fault(CODE, growing)) is FaultKind.GENERAL_PROTECTION


def test_without_siginfo_and_instruction_only_that_memory_failed_is_known() -> None:
    silent = Signal(11, "SIGSEGV")
    assert kind(silent, Fault(CODE, STACK)) is FaultKind.GENERAL_PROTECTION
    for register, call in (("orig_rax", 62), ("x8", 129)):  # kill() of x86-64 and aarch64
        sends = Thread(10, crashed=True, registers={register: call})
        assert kind(silent, Fault(CODE, STACK), Threads((sends,), 10)) is FaultKind.UNKNOWN


def test_a_guard_page_far_from_the_stack_pointer_is_not_the_stack() -> None:
    guard = Address(0x6000_0000, True, 0x6000_0000, 0x6000_1000, "---", "anonymous")
    fault = Fault(CODE, STACK, guard)
    assert kind(segv(guard.value, "SEGV_ACCERR"), fault) is FaultKind.NO_PERMISSION


def test_without_neighbours_only_a_recursion_makes_an_overflow() -> None:
    address = Address(0x7000_0000, False)
    fault = Fault(CODE, Address(0x7000_0100, False), address)
    frames = tuple(Frame("walk") for _ in range(100))
    deep = Threads((Thread(10, crashed=True, frames=frames),), 10)
    flat = Threads((Thread(10, crashed=True, frames=frames[:3]),), 10)
    assert kind(segv(address.value), fault, deep) is FaultKind.STACK_OVERFLOW
    assert kind(segv(address.value), fault, flat) is FaultKind.UNMAPPED


def bus(file: MappedFile, code: str = "BUS_ADRERR") -> FaultKind:
    signal = Signal(7, "SIGBUS", code=code, address=0x7000_0000)
    return kind(signal, Fault(CODE, STACK, Address(0x7000_0000, True), file=file))


def test_sigbus_asks_for_the_file_first() -> None:
    long_enough = MappedFile("/data/a", 4096, True, size=8192, filesystem_free=1 << 40)
    assert bus(MappedFile("/data/a", 4096, True, size=4096)) is FaultKind.FILE_TRUNCATED
    assert bus(long_enough) is FaultKind.FILE_UNREADABLE
    assert bus(MappedFile("/data/a", 4096, False)) is FaultKind.FILE_GONE
    assert bus(MappedFile("/dev/shm/x", 4096, True, size=8192)) is FaultKind.NO_SPACE
    assert bus(MappedFile("/dev/shm/x", 4096, True, size=4096)) is FaultKind.FILE_TRUNCATED
    assert bus(MappedFile("/memfd:shm", 5, False, deleted_then=True)) is FaultKind.FILE_UNREADABLE
    assert bus(long_enough, "BUS_MCEERR_AO") is FaultKind.HARDWARE_MEMORY
    assert bus(long_enough, "BUS_ADRALN") is FaultKind.MISALIGNED


@pytest.mark.parametrize(
    ("name", "code", "sender", "expected"),
    [
        ("SIGABRT", "SI_TKILL", 10, FaultKind.ABORT),
        ("SIGABRT", "SI_USER", 99, FaultKind.KILLED_BY_PROCESS),
        ("SIGSEGV", "SI_USER", 99, FaultKind.KILLED_BY_PROCESS),
        ("SIGSEGV", "SI_USER", 10, FaultKind.RERAISED),
        ("SIGSEGV", "SI_TKILL", 0, FaultKind.RERAISED),
        ("SIGQUIT", "SI_USER", 99, FaultKind.KILLED_BY_PROCESS),
        ("SIGQUIT", "SI_KERNEL", None, FaultKind.TERMINAL_QUIT),
        ("SIGXFSZ", "SI_KERNEL", None, FaultKind.RESOURCE_LIMIT),
        ("SIGSYS", "SYS_SECCOMP", None, FaultKind.SECCOMP),
    ],
)
def test_who_sent_the_signal(name: str, code: str, sender: int | None, expected: FaultKind) -> None:
    assert kind(Signal(1, name, code=code, sender_pid=sender)) is expected


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        (["futex_wait", "pthread_mutex_lock", "encode"], FaultKind.SENT_FROM_ELSEWHERE),
        (["raise", "abort", "encode"], FaultKind.ABORT),
        (["??", "encode"], FaultKind.ABORT),
        ([], FaultKind.ABORT),
    ],
    ids=["waits", "aborts", "nameless", "nothing"],
)
def test_an_abort_below_its_handler_came_from_whoever_raised_it(
    below: list[str], expected: FaultKind
) -> None:
    names = ["pthread_kill", "raise", "<signal handler called>", *below]
    thread = Thread(10, crashed=True, frames=tuple(map(Frame, names)))
    signal = Signal(6, "SIGABRT", code="SI_TKILL", sender_pid=10)
    assert kind(signal, threads=Threads((thread,), 10)) is expected


@pytest.mark.parametrize("signal", [None, Signal(19, "SIGSTOP"), Signal(5, "SIGTRAP")])
def test_a_snapshot_is_no_crash(signal: Signal | None, prose: Prose) -> None:
    core = CoreFile("core", "gcore", 1, 1)
    found = classify(signal, None, NO_THREADS, core, PROCESS)
    assert found is FaultKind.SNAPSHOT
    prose(explain(found, signal))


def test_a_crash_that_gdb_saved_is_a_crash() -> None:
    core = CoreFile("core", "gcore", 1, 1)
    assert classify(segv(0), None, NO_THREADS, core, PROCESS) is FaultKind.NULL_DEREFERENCE


def test_a_trap_is_not_a_missing_instruction() -> None:
    signal = Signal(4, "SIGILL", code="ILL_ILLOPN")
    trap = Fault(CODE, STACK, instruction=Instruction(1, b"\x0f\x0b", feature="trap"))
    avx = Fault(CODE, STACK, instruction=Instruction(1, b"\x62", feature="AVX-512"))
    assert kind(signal, trap) is FaultKind.COMPILER_TRAP
    assert kind(signal, avx) is FaultKind.ILLEGAL_INSTRUCTION
    assert "AVX-512" in explain(FaultKind.ILLEGAL_INSTRUCTION, signal, avx)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (int.from_bytes(b"ckpt/mod", "little"), "'ckpt/mod'"),
        ((1 << 64) - 1, "MAP_FAILED"),
        ((1 << 64) - 22, "-22"),
        (0xDEADBEEF, "0xdeadbeef"),
        (0xDEADBEF7, "0xdeadbeef"),
        (0xDDDD_DDDD_DDDD_DDDD, "debug allocator"),
        (0x5A5A_5A5A_5A5A_5A62, "jemalloc"),
        (0x5A5A_5A5A_5A5A_5A5A, "the letter Z"),
        (0xFEFE_FEFE_FEFE_FEFE, "freed"),
    ],
)
def test_what_a_bad_pointer_looks_like(value: int, words: str) -> None:
    assert words in (pointer_hint(value) or "")


@pytest.mark.parametrize("value", [0, 0x18, 0x7F12_3456_7000, 0x5555_5555_4000])
def test_an_ordinary_address_looks_like_nothing(value: int) -> None:
    assert pointer_hint(value) is None


def test_recursion_counts_functions_and_ignores_ordinary_depth() -> None:
    ordinary = tuple(Frame(f"f{i}") for i in range(200))
    assert recursion(ordinary) is None
    tree = tuple(Frame(("visit", "visit_left")[i % 3 == 0]) for i in range(120))
    found = recursion((Frame("malloc"), *tree))
    assert found is not None
    assert set(found.functions) == {"visit", "visit_left"}
    assert found.frames == 120
    assert not found.is_python


def test_a_long_cycle_is_a_recursion_too() -> None:
    # CPython 3.9, __getattr__ that asks for itself: 14 frames a turn, 10 of them inlined
    turn = [Frame("__getattr__", "python"), *(Frame(f"turn{i}") for i in range(13))]
    found = recursion(tuple(turn * 40))
    assert found is not None
    assert found.is_python
    assert recursion(tuple(turn * 20)) is None


def test_sizes() -> None:
    assert size_words(4096) == "4,096 bytes"
    assert size_words(67108864) == "64.0 MiB"
    assert size_words(3 << 50) == "3.0 PiB"


ADDRESSES = st.one_of(
    st.none(), st.sampled_from([0, 1, 0xFFFF, (1 << 64) - 1]), st.integers(0, (1 << 64) - 1)
)


@st.composite
def places(draw: st.DrawFn) -> Address:
    value = draw(ADDRESSES) or 0
    return Address(
        value,
        draw(st.booleans()),
        start=draw(ADDRESSES),
        end=draw(ADDRESSES),
        permissions=draw(st.sampled_from([None, "---", "rw-", "r-x", ""])),
        kind=draw(st.sampled_from([None, "stack", "thread stack", "heap", "device"])),
        above_start=draw(ADDRESSES),
        above_kind=draw(st.sampled_from([None, "stack", "module"])),
        below_end=draw(ADDRESSES),
    )


CODES = ("SEGV_MAPERR", "SEGV_ACCERR", "SI_KERNEL", "SI_USER", "SI_TKILL", "BUS_ADRERR", None)
NAMES = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGQUIT", "SIGTERM", "SIGSYS")


@given(
    st.sampled_from(NAMES),
    st.sampled_from(CODES),
    ADDRESSES,
    st.builds(Fault, places(), places(), st.one_of(st.none(), places())),
)
def test_any_evidence_gets_a_kind_and_a_sentence(
    name: str, code: str | None, address: int | None, fault: Fault
) -> None:
    signal = Signal(0, name, code=code, address=address)
    found = classify(signal, fault, NO_THREADS, CORE, PROCESS)
    text = explain(found, signal, fault)
    assert text
    assert "None" not in text
    if found is FaultKind.NULL_DEREFERENCE:
        assert address is not None
    if found is FaultKind.NON_CANONICAL and address is not None:
        assert not is_canonical(address)
