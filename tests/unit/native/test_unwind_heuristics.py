"""Callers where no table leads: frame pointers, bad program counters, stack scans."""

import struct
import time
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from builders.unwind_cores import AARCH64, CoreBuilder
from builders.unwind_images import FUNC, GLOBAL, SIZE, ImageBuilder
from postmortem import _native

BASE = 0x7F0000000000
STACK = 0x7FFC00000000
LEAF, CALLER, OUTER, STALE = 0x1000, 0x1200, 0x1400, 0x1600
OUTERMOST = b"\x07\x10"
INDIRECT = b"\xff\xd0"  # call *%rax


def call(at: int, target: int) -> dict[int, bytes]:
    """Return `call target` as text at `at`; it returns to `at` + 5."""
    return {at: b"\xe8" + struct.pack("<i", target - (at + 5))}


def walk(folder: Path, builder: ImageBuilder, words: list[int], **registers: int) -> dict[str, Any]:
    library = folder / "lib.so"
    library.write_bytes(builder.build())
    core = CoreBuilder().module(str(library), BASE, SIZE).words(STACK, words)
    core.thread(**{"rip": BASE + LEAF + 0x10, "rsp": STACK, **registers})
    path = folder / "core"
    path.write_bytes(core.build())
    return _native.read_core(str(path))["threads"][0]  # type: ignore[return-value]


def frames(thread: dict[str, Any]) -> list[tuple[int, str]]:
    return [(f["pc"] - BASE, f["trust"]) for f in thread["frames"]]


def library(*calls: dict[int, bytes]) -> ImageBuilder:
    text: dict[int, bytes] = {}
    for row in calls:
        text |= row
    return ImageBuilder(text=text).function(OUTER, 0x100, OUTERMOST)


def test_call_through_null_goes_on_at_the_top_of_the_stack(tmp_path: Path) -> None:
    builder = library({OUTER: INDIRECT})
    thread = walk(tmp_path, builder, [BASE + OUTER + 2], rip=0)
    assert frames(thread)[1:] == [(OUTER + 2, "frame_pointer")]
    assert thread["frames"][0]["pc"] == 0
    assert thread["stopped"] is None


def test_bad_pc_without_a_call_behind_it_is_not_believed(tmp_path: Path) -> None:
    # A smashed stack: "return" to garbage. What lies on top of the stack is no return address.
    thread = walk(tmp_path, library(), [BASE + OUTER + 2, 5, 6], rip=0x4141414141414141)
    assert len(thread["frames"]) == 1
    assert "does not point to code" in thread["stopped"]


def test_frame_pointer_chain(tmp_path: Path) -> None:
    builder = library(call(CALLER, LEAF), call(OUTER, CALLER))
    words = [7, 7, STACK + 40, BASE + CALLER + 5, 7, STACK + 4096, BASE + OUTER + 5]
    thread = walk(tmp_path, builder, words, rbp=STACK + 16)
    assert frames(thread) == [
        (LEAF + 0x10, "context"),
        (CALLER + 5, "frame_pointer"),
        (OUTER + 5, "frame_pointer"),
    ]
    assert thread["stopped"] is None


def test_frame_pointer_to_words_that_no_call_left_is_not_followed(tmp_path: Path) -> None:
    builder = library({OUTER: b"\x90" * 16})
    thread = walk(tmp_path, builder, [0, STACK + 40, BASE + OUTER + 5], rbp=STACK + 8)
    assert len(thread["frames"]) == 1
    assert "no unwind tables" in thread["stopped"]


def test_cyclic_frame_pointers_end(tmp_path: Path) -> None:
    builder = library(call(CALLER, CALLER))
    words = [0, STACK + 8, BASE + CALLER + 5]
    thread = walk(tmp_path, builder, words, rbp=STACK + 8, rip=BASE + CALLER + 9)
    assert len(thread["frames"]) <= 3
    assert thread["stopped"]


def test_leaf_with_its_callers_frame_pointer_does_not_hide_that_caller(tmp_path: Path) -> None:
    builder = library(call(CALLER, LEAF), call(OUTER, CALLER))
    words = [7, BASE + CALLER + 5, 7, STACK + 4096, BASE + OUTER + 5]
    thread = walk(tmp_path, builder, words, rbp=STACK + 24)
    assert frames(thread)[1:] == [(CALLER + 5, "scan"), (OUTER + 5, "frame_pointer")]


def test_scan_prefers_the_call_that_went_here(tmp_path: Path) -> None:
    builder = library(call(CALLER, LEAF), call(OUTER, CALLER), call(STALE, OUTER))
    builder.symbols = [
        ("leaf", LEAF, 0x100, GLOBAL, FUNC),
        ("caller", CALLER, 0x100, GLOBAL, FUNC),
        ("stale", STALE, 0x100, GLOBAL, FUNC),
    ]
    words = [1, BASE + STALE + 5, 2, BASE + CALLER + 5, 3, BASE + OUTER + 5]
    thread = walk(tmp_path, builder, words)
    assert frames(thread)[1:] == [(CALLER + 5, "scan"), (OUTER + 5, "scan")]


def test_scan_does_not_follow_a_chain_that_a_living_frame_has_cut(tmp_path: Path) -> None:
    # The leftover STALE leads by its tables to a slot that now holds a call to CALLER, not to it.
    builder = library({CALLER: INDIRECT}, call(OUTER, CALLER), {STALE: INDIRECT})
    builder.function(CALLER, 0x100, b"\x0e\x10").function(STALE, 0x100, b"\x0e\x18")
    words = [BASE + STALE + 2, BASE + CALLER + 2, 1, BASE + OUTER + 5]
    thread = walk(tmp_path, builder, words)
    assert frames(thread)[1:] == [(CALLER + 2, "scan"), (OUTER + 5, "cfi")]


def test_signal_trampoline_without_tables_is_known_by_its_bytes(tmp_path: Path) -> None:
    trampoline = b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"
    builder = library({CALLER: trampoline})
    context = [0] * 23
    context[5 + 15] = STACK + 0x1000  # rsp
    context[5 + 16] = BASE + OUTER  # rip
    thread = walk(tmp_path, builder, context, rip=BASE + CALLER)
    assert frames(thread)[1:] == [(OUTER, "cfi")]
    assert thread["stopped"] is None


def test_missing_library_is_named(tmp_path: Path, prose: Prose) -> None:
    core = CoreBuilder().module("/nowhere/libgone.so", BASE, SIZE).words(STACK, [1, 2, 3])
    core.thread(rip=BASE + LEAF, rsp=STACK)
    path = tmp_path / "core"
    path.write_bytes(core.build())
    thread = _native.read_core(str(path))["threads"][0]
    prose(thread["stopped"])


def test_stack_full_of_return_addresses_does_not_hang(tmp_path: Path) -> None:
    # Every word looks like a caller, every chain of tables goes on for long, and no chain ends.
    builder = ImageBuilder(text={CALLER: INDIRECT}).function(CALLER, 0x100, b"")
    library = tmp_path / "lib.so"
    library.write_bytes(builder.build())
    core = CoreBuilder().module(str(library), BASE, SIZE)
    core.words(STACK, ([BASE + CALLER + 2] * 255 + [5]) * 512)
    for tid in range(50):
        core.thread(tid, rip=BASE + LEAF, rsp=STACK + 64 * tid)
    path = tmp_path / "core"
    path.write_bytes(core.build())
    start = time.monotonic()
    threads = _native.read_core(str(path))["threads"]
    assert time.monotonic() - start < 60
    assert len(threads) == 50
    assert all(thread["stopped"] for thread in threads)


def test_symbols_tell_that_a_near_call_went_elsewhere(tmp_path: Path) -> None:
    # Both targets lie shortly before the pc; only one is the start of the function that runs.
    builder = library(call(STALE, LEAF), call(OUTER, CALLER))
    builder.symbols = [("leaf", LEAF, 0x100, GLOBAL, FUNC), ("runs", CALLER, 0x100, GLOBAL, FUNC)]
    words = [1, BASE + STALE + 5, 2, BASE + OUTER + 5]
    thread = walk(tmp_path, builder, words, rip=BASE + CALLER + 0x10)
    assert frames(thread)[1:] == [(OUTER + 5, "scan")]


GONE = 0x7F1000000000


@pytest.mark.parametrize(
    ("text", "callers"),
    [
        (b"\x04\x00\x00\x94", [GONE + 0x2000, GONE + 0x3000, BASE + OUTER + 4]),  # bl
        (b"\x1f\x20\x03\xd5", []),  # nop: what was left by somebody else
    ],
)
def test_frame_records_of_aarch64_lead_through_code_that_is_not_here(
    tmp_path: Path, text: bytes, callers: list[int]
) -> None:
    builder = ImageBuilder(AARCH64, return_column=30, text={OUTER: text})
    builder.function(OUTER, 0x100, b"\x07\x1e")
    program = tmp_path / "program.so"
    program.write_bytes(builder.build())
    core = CoreBuilder(AARCH64).module(str(program), BASE, SIZE)
    core.module("/nowhere/libc.so.6", GONE, 0x10000)
    records = [(32, GONE + 0x2000), (64, GONE + 0x3000), (96, BASE + OUTER + 4)]
    words = [word for up, address in records for word in (STACK + up, address, 7, 7)]
    core.words(STACK, words)
    core.thread(pc=GONE + 0x1000, sp=STACK, x29=STACK, x30=5)
    path = tmp_path / "core"
    path.write_bytes(core.build())
    rows = _native.read_core(str(path))["threads"][0]["frames"]
    assert [row["pc"] for row in rows[1:4]] == callers
    assert {row["trust"] for row in rows[1:4]} <= {"frame_pointer"}
