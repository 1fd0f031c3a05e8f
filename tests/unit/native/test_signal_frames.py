"""Frames of signal handlers, as the kernel lays them out, and what they say of the first signal.

The layouts are written out here once more, from the kernel's uapi headers: asm/sigcontext.h,
asm/ucontext.h, and arch/arm64/kernel/signal.c (struct rt_sigframe).
"""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from builders.elf import PF_R, PF_W, PF_X, CoreBuilder

EM_AARCH64 = 183
SIGABRT, SIGBUS, SIGSEGV = 6, 7, 11
SI_TKILL, SI_QUEUE, SEGV_MAPERR, SEGV_ACCERR = -6, -1, 1, 2
STACK, TEXT = 0xFFFFF0000000, 0x400000
SP, PC = STACK + 0x3000, TEXT + 0x10
ADDRESS = 0x18
STORE = struct.pack("<I", 0xF9000C01)  # str x1, [x0, #24]
SVC = struct.pack("<II", 0xD2801168, 0xD4000001)  # mov x8, #139; svc #0

Read = Callable[..., dict[str, Any]]


def siginfo(number: int, code: int, address: int) -> bytes:
    return struct.pack("<iiiiQ", number, 0, code, 0, address).ljust(128, b"\0")


def frame(
    info: bytes, registers: list[int], sp: int, pc: int, *, address: int = 0, syndrome: int = 0
) -> bytes:
    """Return struct rt_sigframe: siginfo, ucontext with its sigcontext, records behind."""
    ucontext = bytes(168).ljust(176, b"\0")  # flags, link, stack, mask and its reserve
    context = struct.pack("<Q31QQQQ", address, *registers, sp, pc, 0).ljust(288, b"\0")
    fpsimd = struct.pack("<II", 0x46508001, 528).ljust(528, b"\0")
    records = fpsimd
    if syndrome:
        records += struct.pack("<IIQ", 0x45535201, 16, syndrome)
    return info + ucontext + context + records + struct.pack("<II", 0, 0)


def core(stack: bytes, registers: list[int], *, at: int, sp: int = SP, pc: int = PC) -> CoreBuilder:
    """Return a core of a process that raised SIGSEGV again; `stack` lies at `at`."""
    memory = bytearray(0x4000)
    memory[at - STACK : at - STACK + len(stack)] = stack
    values = dict(enumerate(registers))
    builder = CoreBuilder(machine=EM_AARCH64).thread(1000, SIGSEGV, values, pc=pc, sp=sp)
    builder.process(1000).siginfo(SIGSEGV, SI_TKILL, pid=1000)
    text = (b"\x1f\x20\x03\xd5" * 4 + STORE).ljust(0x1000, b"\0")
    return builder.segment(TEXT, text, PF_R | PF_X).segment(STACK, bytes(memory), PF_R | PF_W)


REGISTERS = [0, 7, *range(100, 129)]


def test_frame_left_behind_by_a_handler_that_raised_again(read: Read) -> None:
    left = frame(siginfo(SIGSEGV, SEGV_MAPERR, ADDRESS), REGISTERS, SP, PC, address=ADDRESS)
    caught = read(core(left, REGISTERS, at=SP - 0x1200))["caught"]
    assert caught is not None
    assert not caught["in_handler"]
    assert (caught["signal"]["number"], caught["signal"]["code"]) == (SIGSEGV, SEGV_MAPERR)
    assert caught["signal"]["address"] == ADDRESS
    assert caught["instruction"]["operand"] == "x0+0x18"
    assert list(caught["registers"][:33]) == [*REGISTERS, SP, PC]


@pytest.mark.parametrize(
    "left_over",
    [
        pytest.param(b"\xa5" * 128, id="no signal"),
        # The dynamic loader leaves such words below main(): SI_QUEUE, but of nobody.
        pytest.param(siginfo(SIGSEGV, SI_QUEUE, 0x7FCA8682B190), id="no process"),
    ],
)
def test_without_sa_siginfo_the_syndrome_tells(read: Read, left_over: bytes) -> None:
    data_abort_write = 0x24 << 26 | 1 << 25 | 0x40 | 0x05
    left = frame(left_over, REGISTERS, SP, PC, address=ADDRESS, syndrome=data_abort_write)
    caught = read(core(left, REGISTERS, at=SP - 0x1200))["caught"]
    assert caught is not None
    assert (caught["signal"]["number"], caught["signal"]["code"]) == (SIGSEGV, SEGV_MAPERR)
    assert caught["signal"]["address"] == ADDRESS


def test_write_to_memory_that_may_not_be_written(read: Read) -> None:
    registers = [TEXT + 0x100 - 24, *REGISTERS[1:]]
    data_abort_write = 0x24 << 26 | 1 << 25 | 0x40 | 0x0F
    left = frame(b"\xa5" * 128, registers, SP, PC, address=TEXT + 0x100, syndrome=data_abort_write)
    caught = read(core(left, registers, at=SP - 0x1200))["caught"]
    assert caught is not None
    assert caught["signal"]["code"] == SEGV_ACCERR


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"registers": [1, *REGISTERS[1:]]}, id="other registers"),
        pytest.param({"sp": SP + 16}, id="another stack pointer"),
        pytest.param({"pc": PC + 4}, id="another pc"),
    ],
)
def test_old_frames_of_other_signals_are_left_alone(read: Read, change: dict[str, Any]) -> None:
    saved = {"registers": REGISTERS, "sp": SP, "pc": PC} | change
    info = siginfo(SIGSEGV, SEGV_MAPERR, ADDRESS)
    left = frame(info, saved["registers"], saved["sp"], saved["pc"], address=ADDRESS)
    assert read(core(left, REGISTERS, at=SP - 0x1200))["caught"] is None


def test_address_that_the_instruction_cannot_have_touched(read: Read) -> None:
    data_abort = 0x24 << 26 | 1 << 25 | 0x05
    left = frame(b"\xa5" * 128, REGISTERS, SP, PC, address=0xDEAD0000, syndrome=data_abort)
    assert read(core(left, REGISTERS, at=SP - 0x1200))["caught"] is None


def test_thread_inside_of_its_handler(read: Read) -> None:
    """By its frame record, whose return address is the trampoline of the vdso."""
    trampoline, at = TEXT + 0x200, SP - 0x1400
    info = siginfo(SIGSEGV, SEGV_MAPERR, ADDRESS)
    saved = frame(info, REGISTERS, SP, PC, address=ADDRESS)
    record = struct.pack("<QQQQ", 0, trampoline, 0, 0)
    registers = [*REGISTERS]
    registers[29] = at - len(record)
    builder = core(record + saved, registers, at=at - len(record), sp=registers[29], pc=TEXT + 256)
    text = builder._segments[0]
    text.data = text.data[:0x200] + SVC + text.data[0x208:]
    found = read(builder)
    frames = found["threads"][0]["frames"]
    assert [row["pc"] for row in frames][:3] == [TEXT + 256, trampoline, PC], found["threads"][0]
    caught = found["caught"]
    assert caught is not None
    assert caught["in_handler"]
    assert caught["signal"]["address"] == ADDRESS


@pytest.mark.parametrize("mark", [0x46505853, 0], ids=["the kernel's frame", "a word of the stack"])
def test_trampoline_of_a_library_that_is_not_here(read: Read, mark: int) -> None:
    """x86-64: neither the handler's code nor the trampoline's can be read, but the frame can."""
    at = SP - 0x1000  # of the ucontext, behind the trampoline's address
    words = [0] * 38
    words[20:22] = [SP, PC]
    words[23], words[24], words[25], words[27] = 0x33, 4, 14, ADDRESS  # cs, error, trap, cr2
    words[28] = at + 448
    ucontext = struct.pack("<38Q", *words) + siginfo(SIGSEGV, SEGV_MAPERR, ADDRESS)
    vectors = bytes(464) + struct.pack("<I", mark)
    saved = struct.pack("<Q", TEXT + 0x200) + ucontext.ljust(448, b"\0") + vectors
    memory = bytearray(0x4000)
    memory[at - 8 - STACK : at - 8 - STACK + len(saved)] = saved
    builder = CoreBuilder().thread(1000, SIGABRT, {}, pc=TEXT + 0x100, sp=at - 0x80)
    builder.process(1000).siginfo(SIGABRT, SI_TKILL, pid=1000)
    builder.segment(TEXT, b"", PF_R | PF_X, memsz=0x1000)
    found = read(builder.segment(STACK, bytes(memory), PF_R | PF_W))
    frames = [row["pc"] for row in found["threads"][0]["frames"]]
    assert frames == [TEXT + 0x100, *([TEXT + 0x200, PC] if mark else [])]
    assert (found["caught"] and found["caught"]["signal"]["address"]) == (ADDRESS if mark else None)
