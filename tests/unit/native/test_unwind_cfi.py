"""Unwind tables, byte by byte: each program must lead from one frame to the planted caller."""

import struct
import time
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from builders.unwind_cores import AARCH64, EXECUTE, READ, CoreBuilder, Segment
from builders.unwind_images import SIZE, ImageBuilder, block, sleb, uleb
from postmortem import _native

BASE = 0x7F0000000000
STACK = 0x7FFC00000000
F, G = 0x1000, 0x1400  # the function that runs, and its caller: the outermost frame
PC = BASE + F + 0x10
RETURN = BASE + G + 5
OUTERMOST = b"\x07\x10"  # undefined: return address


def image(program: bytes, **options: Any) -> ImageBuilder:
    builder = ImageBuilder(**options)
    builder.function(F, 0x100, program).function(G, 0x100, OUTERMOST)
    return builder


def walk(
    folder: Path, built: bytes, words: list[int], *, max_frames: int = 512, **registers: int
) -> dict[str, Any]:
    """Return the only thread of a core in which `built` is mapped and the stack holds `words`."""
    library = folder / "lib.so"
    library.write_bytes(built)
    core = CoreBuilder().module(str(library), BASE, SIZE).words(STACK, words)
    core.thread(**{"rip": PC, "rsp": STACK, **registers})
    path = folder / "core"
    path.write_bytes(core.build())
    return _native.read_core(str(path), max_frames=max_frames)["threads"][0]  # type: ignore[return-value]


def pcs(thread: dict[str, Any]) -> list[int]:
    return [frame["pc"] for frame in thread["frames"]]


def address_of(register: int, offset: int) -> bytes:
    return bytes([0x70 + register]) + sleb(offset)


# name: program of F, words on the stack, further registers. The CIE says CFA = rsp+8, ret at CFA-8.
PROGRAMS: dict[str, tuple[bytes, list[int], dict[str, int]]] = {
    "nothing": (b"", [RETURN], {}),
    "def_cfa_offset": (b"\x0e\x18", [1, 2, RETURN], {}),
    "def_cfa_offset_sf": (b"\x13" + sleb(-3), [1, 2, RETURN], {}),
    "def_cfa": (b"\x0c\x06\x10", [1, 2, 3, RETURN], {"rbp": STACK + 16}),
    "def_cfa_sf": (b"\x12\x06" + sleb(-2), [1, 2, 3, RETURN], {"rbp": STACK + 16}),
    "def_cfa_register": (b"\x0e\x10\x0d\x06", [1, 2, 3, RETURN], {"rbp": STACK + 16}),
    "later rows do not count": (b"\x0e\x10\x51\x0e\x20", [1, RETURN], {}),
    "advance_loc": (b"\x44\x0e\x10\x4d\x0e\x20", [1, RETURN], {}),
    "advance_loc1": (b"\x02\x10\x0e\x10\x02\x01\x0e\x20", [1, RETURN], {}),
    "advance_loc2": (b"\x03\x10\x00\x0e\x10\x03\x01\x00\x0e\x20", [1, RETURN], {}),
    "advance_loc4": (b"\x04\x10\0\0\0\x0e\x10\x04\x01\0\0\0\x0e\x20", [1, RETURN], {}),
    "remember and restore": (b"\x0e\x10\x0a\x0e\x40\x0b", [1, RETURN], {}),
    "args_size": (b"\x2e\x10\x0e\x10", [1, RETURN], {}),
    "offset_extended": (b"\x0e\x10\x05\x10\x02", [RETURN], {}),
    "offset_extended_sf": (b"\x0e\x10\x11\x10" + sleb(2), [RETURN], {}),
    "negative_offset_extended": (b"\x0e\x10\x2f\x10\x01", [1, 2, 3, RETURN], {}),
    "restore_extended": (b"\x05\x10\x09\x06\x10", [RETURN], {}),
    "return address in a register": (b"\x09\x10\x03", [1], {"rbx": RETURN}),
    "cfa by expression": (b"\x0f" + block(address_of(7, 24)), [1, 2, RETURN], {}),
    "saved where an expression says": (
        b"\x10\x10" + block(b"\x23\x08"),  # plus_uconst 8 on the CFA
        [1, 2, RETURN],
        {},
    ),
    "value of an expression": (b"\x16\x10" + block(address_of(3, 5)), [1], {"rbx": RETURN - 5}),
    "dereference": (b"\x0f" + block(address_of(7, 0) + b"\x06"), [STACK + 24, 2, RETURN], {}),
    "branch taken": (
        # lit1 bra(+2) {const1u 99}: skipped; then rsp+16
        b"\x0f" + block(b"\x31\x28\x02\x00\x08\x63" + address_of(7, 16)),
        [1, RETURN],
        {},
    ),
    "branch not taken": (
        b"\x0f" + block(address_of(7, 8) + b"\x30\x28\x02\x00\x23\x08"),
        [1, RETURN],
        {},
    ),
    # what ld makes of a PLT: rsp + 8 + ((rip & 15) >= 11) * 8, here with rip & 15 == 0
    "plt": (
        b"\x0f" + block(b"\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"),
        [RETURN],
        {},
    ),
    "swap rot over pick drop": (
        # 1 2 3 rot -> 3 1 2; swap -> 3 2 1; drop drop -> 3; 3+5 -> 8; dup drop; + rsp
        b"\x0f"
        + block(b"\x31\x32\x33\x17\x16\x13\x13\x35\x22\x12\x13" + address_of(7, 0) + b"\x22"),
        [RETURN],
        {},
    ),
    "arithmetic": (
        # ((7 * 6 - 2) / 5) = 8; | 0; ^ 0; << 1 >> 1; neg neg; not not; abs; % 16
        b"\x0f"
        + block(
            b"\x37\x36\x1e\x32\x1c\x35\x1b\x30\x21\x30\x27\x31\x24\x31\x25\x1f\x1f\x20\x20\x19"
            + b"\x40\x1d"
            + address_of(7, 0)
            + b"\x22"
        ),
        [RETURN],
        {},
    ),
    "bregx and deref_size": (
        b"\x0f" + block(b"\x92\x07" + sleb(8) + b"\x94\x01" + address_of(7, 0) + b"\x22"),
        [1, 24, RETURN],
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_leads_to_the_caller(tmp_path: Path, name: str) -> None:
    program, words, registers = PROGRAMS[name]
    thread = walk(tmp_path, image(program).build(), words, **registers)
    assert pcs(thread) == [PC, RETURN]
    assert thread["stopped"] is None
    assert [f["trust"] for f in thread["frames"]] == ["context", "cfi"]


@pytest.mark.parametrize("rule", [b"\x14\x06\x01", b"\x15\x06" + sleb(1)])
def test_val_offset_gives_the_caller_its_register(tmp_path: Path, rule: bytes) -> None:
    builder = image(rule).function(0x1800, 0x100, b"\x0c\x06\x10")  # the caller's CFA: rbp + 16
    middle = BASE + 0x1800 + 7
    thread = walk(tmp_path, builder.build(), [middle, RETURN])
    assert pcs(thread) == [PC, middle, RETURN]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pointer_encoding": 0x1C},
        {"pointer_encoding": 0x00},
        {"pointer_encoding": 0x03},
        {"table_encoding": 0x3C},
        {"table_encoding": 0x03},
        {"table_encoding": 0xFF},
        {"header": False},
        {"debug_frame": True},
        {"debug_frame": True, "long_length": True},
        {"long_length": True},
    ],
    ids=str,
)
def test_tables_are_found_however_they_are_encoded(tmp_path: Path, options: dict[str, Any]) -> None:
    built = image(b"\x0e\x18", **options).build()
    thread = walk(tmp_path, built, [1, 2, RETURN])
    assert pcs(thread) == [PC, RETURN]
    assert thread["frames"][1]["trust"] == "cfi"


def test_lying_search_table_falls_back_to_the_entries(tmp_path: Path) -> None:
    built = bytearray(image(b"\x0e\x18").build())
    struct.pack_into("<i", built, 0x2C00 + 12 + 4, 0x1234567)  # entry of F: nowhere
    thread = walk(tmp_path, bytes(built), [1, 2, RETURN])
    assert pcs(thread) == [PC, RETURN]


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("endless loop", b"\x0f" + block(b"\x2f\xfd\xff")),
        ("loop that grows the stack", b"\x0f" + block(b"\x31\x2f\xfc\xff")),
        ("stack underflow", b"\x0f" + block(b"\x22")),
        ("division by zero", b"\x0f" + block(b"\x31\x30\x1b")),
        ("modulo zero", b"\x0f" + block(b"\x31\x30\x1d")),
        ("jump outside", b"\x0f" + block(b"\x2f\x00\x40")),
        ("unknown operation", b"\x0f" + block(b"\xfe")),
        ("unmapped memory", b"\x0f" + block(b"\x30\x06")),
        ("unknown instruction", b"\x3f"),
        ("restore without remember", b"\x0b"),
        ("remember without end", b"\x0a" * 200),
        ("register that does not exist", b"\x0c" + uleb(1 << 40) + b"\x08"),
        ("cut inside an operand", b"\x0e\x80"),
    ],
)
def test_broken_programs_end_the_walk_with_a_reason(
    tmp_path: Path, name: str, program: bytes
) -> None:
    start = time.monotonic()
    thread = walk(tmp_path, image(program).build(), [0] * 64)
    assert time.monotonic() - start < 60
    assert pcs(thread) == [PC]
    assert thread["stopped"]


def test_stack_that_does_not_grow_ends_the_walk(tmp_path: Path, prose: Prose) -> None:
    built = image(b"\x0e\x00\x05\x10" + uleb(0)).build()  # CFA = rsp, ret at CFA: itself forever
    thread = walk(tmp_path, built, [PC] * 8)
    assert len(thread["frames"]) == 1
    prose(thread["stopped"])


def test_zero_return_address_is_not_called_the_end(tmp_path: Path) -> None:
    thread = walk(tmp_path, image(b"").build(), [0] * 8)
    assert pcs(thread) == [PC]
    assert "return address is 0" in thread["stopped"]


def test_return_address_outside_code_is_told(tmp_path: Path) -> None:
    thread = walk(tmp_path, image(b"").build(), [0x4141414141414141] * 8)
    assert pcs(thread) == [PC]
    assert "0x4141414141414141 does not point to code" in thread["stopped"]


def test_lost_stack_is_told(tmp_path: Path) -> None:
    thread = walk(tmp_path, image(b"\x0e\x10").build(), [1], rsp=STACK + 4096)
    assert pcs(thread) == [PC]
    assert "not mapped" in thread["stopped"]


def test_signal_frame_is_looked_up_at_its_pc_and_not_before(tmp_path: Path) -> None:
    # The interrupted function begins exactly at the interrupted pc: pc - 1 is another function.
    interrupted = G + 0x100
    builder = ImageBuilder()
    builder.function(F, 0x100, b"\x0e\x10\x05\x10\x02", signal=True)
    builder.function(G, 0x100, b"\x3f")
    builder.function(interrupted, 0x100, OUTERMOST)
    builder.symbols = [("before", G, 0x100, 1, 2), ("interrupted", interrupted, 0x100, 1, 2)]
    thread = walk(tmp_path, builder.build(), [BASE + interrupted, 0])
    assert pcs(thread) == [PC, BASE + interrupted]
    assert thread["frames"][1]["function"] == "interrupted"
    assert thread["stopped"] is None


def test_long_stack_keeps_both_ends(tmp_path: Path) -> None:
    depth = 5000
    builder = image(b"").function(0x1800, 0x100, b"")
    inner = BASE + 0x1800 + 7
    thread = walk(tmp_path, builder.build(), [inner] * depth + [RETURN], max_frames=100)
    total = depth + 2
    assert len(thread["frames"]) == 100
    assert thread["skipped"] == total - 100
    assert pcs(thread)[0] == PC
    assert pcs(thread)[-1] == RETURN
    assert thread["skipped_at"] == 75
    assert thread["stopped"] is None
    everything = walk(tmp_path, builder.build(), [inner] * depth + [RETURN], max_frames=10_000)
    assert len(everything["frames"]) == total
    assert everything["skipped"] == 0
    assert everything["skipped_at"] is None


def test_aarch64_leaf_keeps_its_return_address_in_x30_and_signatures_are_stripped(
    tmp_path: Path,
) -> None:
    # CFA = x31 + 0; then a caller whose x29, x30 are saved at CFA-16 and CFA-8.
    builder = ImageBuilder(AARCH64, cie_program=b"\x0c\x1f\x00", return_column=30)
    builder.function(F, 0x100, b"\x2d")  # negate_ra_state
    builder.function(G, 0x100, b"\x0e\x20\x9d\x02\x9e\x01")
    builder.function(0x1800, 0x100, b"\x07\x1e")
    library = tmp_path / "lib.so"
    library.write_bytes(builder.build())
    outer = BASE + 0x1800 + 8
    core = CoreBuilder(AARCH64).module(str(library), BASE, SIZE)
    core.words(STACK, [0, 0, 0x1111, outer | 0x2A << 48])
    core.thread(pc=PC, sp=STACK, x30=RETURN | 0x7B << 48)
    path = tmp_path / "core"
    path.write_bytes(core.build())
    thread = _native.read_core(str(path))["threads"][0]
    assert [f["pc"] for f in thread["frames"]] == [PC, RETURN, outer]
    assert thread["stopped"] is None


def test_vdso_is_unwound_from_its_image_in_the_core(tmp_path: Path) -> None:
    vdso = 0x7FFD00000000
    builder = image(b"\x0e\x10")
    builder.symbols = [("__vdso_time", F, 0x100, 1, 2)]
    core = CoreBuilder(auxv={33: vdso}).words(STACK, [1, vdso + G + 5])
    core.segments.append(Segment(vdso, builder.build(), READ | EXECUTE))
    core.thread(rip=vdso + F + 4, rsp=STACK)
    path = tmp_path / "core"
    path.write_bytes(core.build())
    thread = _native.read_core(str(path))["threads"][0]
    assert [f["pc"] for f in thread["frames"]] == [vdso + F + 4, vdso + G + 5]
    assert thread["frames"][0]["function"] == "__vdso_time"
    assert thread["frames"][0]["function_offset"] == 4
    assert thread["frames"][0]["module"] is None


def test_module_without_a_file_is_unwound_from_the_core_but_not_named(tmp_path: Path) -> None:
    # coredump_filter with bit 2 set dumps clean file pages, the tables among them.
    builder = image(b"\x0e\x10")
    builder.symbols = [("f", F, 0x100, 1, 2)]
    core = CoreBuilder().module("/nowhere/libgone.so", BASE, SIZE, dumped=builder.build()[:SIZE])
    core.words(STACK, [1, RETURN]).thread(rip=PC, rsp=STACK)
    path = tmp_path / "core"
    path.write_bytes(core.build())
    thread = _native.read_core(str(path))["threads"][0]
    assert [(f["pc"], f["function"]) for f in thread["frames"]] == [(PC, None), (RETURN, None)]
    assert thread["stopped"] is None


def test_code_that_no_segment_covers_is_taken_from_its_file(tmp_path: Path) -> None:
    # gcore leaves clean file pages out, segment and all.
    library = tmp_path / "lib.so"
    library.write_bytes(image(b"\x0e\x10").build())
    core = CoreBuilder(files=[(BASE, BASE + SIZE, 0, str(library))])
    core.words(STACK, [1, RETURN]).thread(rip=PC, rsp=STACK)
    path = tmp_path / "core"
    path.write_bytes(core.build())
    thread = _native.read_core(str(path))["threads"][0]
    assert [f["pc"] for f in thread["frames"]] == [PC, RETURN]
    assert thread["stopped"] is None


def test_walk_can_be_left_out(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(image(b"").build())
    core = CoreBuilder().module(str(library), BASE, SIZE).words(STACK, [RETURN])
    path = tmp_path / "core"
    path.write_bytes(core.thread(rip=PC, rsp=STACK).build())
    thread = _native.read_core(str(path), stacks=False)["threads"][0]
    assert thread["frames"] == []
    assert thread["stopped"] is None
