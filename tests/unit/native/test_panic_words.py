"""What run-times that move their objects leave of an exception: in their heaps, on the stack."""

import struct
from pathlib import Path
from typing import Any

import pytest

from builders.unwind_cores import AARCH64, CoreBuilder, Segment
from builders.unwind_images import ImageBuilder
from postmortem import _native

CODE, STACK, HEAP, OTHER = 0x7F0000000000, 0x7FFC00000000, 0x30000000000, 0x31000000000
SAID = b"Uncaught RangeError: shard 7 is short"
LINES = b"\0load (/app/load.js:1:53)\nmain (/app/load.js:9:3)\0"


def string(text: bytes, *, map_word: int = HEAP + 1, length: int | None = None) -> bytes:
    """Return a one-byte string of V8: map, hash, length, characters (src/objects/string.h)."""
    count = len(text) if length is None else length
    return (struct.pack("<QII", map_word, 7, count) + text).ljust(128, b"\0")


V8 = "v8::internal::Isolate::CreateMessageOrAbort"


def panic(
    folder: Path, heap: bytes, *, pointers: tuple[int, ...] = (HEAP + 1,), function: str = V8
) -> Any:
    image = ImageBuilder(symbols=[(function, 0x1000, 64, 1, 2)])
    core = CoreBuilder(auxv={33: CODE}).thread(5, rip=CODE + 0x1004, rsp=STACK + 8)
    stack = struct.pack(f"<{len(pointers) + 1}Q", 0, *pointers) + LINES
    core.segments.append(Segment(STACK, stack.ljust(4096, b"\0")))
    core.segments.append(Segment(CODE, image.build(), 5))
    core.segments.append(Segment(HEAP, heap.ljust(4096, b"\0")))
    core.segments.append(Segment(OTHER, string(SAID).ljust(4096, b"\0")))
    path = folder / "core"
    path.write_bytes(core.build())
    return _native.read_core(str(path))["panic"]


def test_the_exception_and_its_stack(tmp_path: Path) -> None:
    found = panic(tmp_path, bytes(64) + string(SAID) + string(SAID))
    assert found == ("JavaScript", f"{SAID.decode()}\n{LINES.strip(bytes(1)).decode()}")


@pytest.mark.parametrize(
    "heap",
    [
        pytest.param(string(SAID) + string(b"Uncaught Error: another"), id="two that differ"),
        pytest.param(string(SAID, map_word=HEAP), id="no map"),
        pytest.param(string(SAID, length=100), id="longer than its text"),
        pytest.param(string(SAID, length=1 << 31), id="longer than the memory"),
        pytest.param(string(b"Uncaught "), id="the prefix alone"),
        pytest.param(string(b"log: " + SAID), id="inside of another string"),
        pytest.param(SAID * 90, id="no string at all"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_is_no_such_string_is_not_told(tmp_path: Path, heap: bytes) -> None:
    assert panic(tmp_path, bytes(64) + heap) is None


def test_a_heap_that_the_thread_does_not_point_to_is_not_searched(tmp_path: Path) -> None:
    assert panic(tmp_path, b"", pointers=()) is None
    assert panic(tmp_path, b"", pointers=(OTHER + 1,)) is not None


def thrown(
    message: int, *, inner: int = 0, code: int = 0xE0434352, failure: int = 0x80131500
) -> bytes:
    """Return a System.Exception whose _message lies there."""
    references = [CODE, 0, message, 0, inner, *[0] * 9]
    return struct.pack("<14QII", *references, code, failure).ljust(256, b"\0")


def dotnet_string(text: str, *, end: bytes = b"\0\0") -> bytes:
    units = text.encode("utf-16-le")
    return (struct.pack("<QI", CODE, len(text)) + units + end).ljust(256, b"\0")


def dotnet(folder: Path, *objects: bytes, pointers: tuple[int, ...] = (HEAP,)) -> Any:
    """Return what is told of objects that lie 256 bytes apart."""
    found = panic(folder, b"".join(objects), pointers=pointers, function="DispatchManagedException")
    assert found is None or found[0] == ".NET"
    return found and found[1]


SHORT = dotnet_string("part-008 has 3 bytes")
OUTER = dotnet_string("cannot load")


def test_the_message_of_a_dotnet_exception(tmp_path: Path) -> None:
    assert dotnet(tmp_path, thrown(HEAP + 256), SHORT) == "part-008 has 3 bytes"


def test_of_an_exception_inside_of_another_the_outer_one_is_told(tmp_path: Path) -> None:
    outer, inner = thrown(HEAP + 512, inner=HEAP + 256), thrown(HEAP + 768)
    both = (HEAP + 256, HEAP)
    assert dotnet(tmp_path, outer, inner, OUTER, SHORT, pointers=both) == "cannot load"


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((thrown(HEAP + 512), thrown(HEAP + 768), OUTER, SHORT), id="two that differ"),
        pytest.param((thrown(HEAP + 256, code=0xC0000005), SHORT), id="of native code"),
        pytest.param((thrown(HEAP + 256, failure=0), SHORT), id="no failure beside the mark"),
        pytest.param((thrown(0), SHORT), id="no message"),
        pytest.param((thrown(HEAP + 256), dotnet_string("part", end=b"xx")), id="no string"),
        pytest.param((thrown(HEAP + 256), dotnet_string("\x01\x02")), id="no text"),
    ],
)
def test_what_is_no_such_exception_is_not_told(tmp_path: Path, objects: tuple[bytes, ...]) -> None:
    assert dotnet(tmp_path, *objects, pointers=(HEAP, HEAP + 256)) is None


WORDS = b"\nthread 'reader' (7) panicked at src/shard.rs:2:39:\nno shard 12\n\0"


def nameless(folder: Path, *segments: Segment, signal: int = 6) -> Any:
    """Return what is told of a thread whose program is not here."""
    core = CoreBuilder(auxv={3: CODE + 64}).thread(
        5, signal, rip=CODE + 4, rsp=STACK + 2048, fs_base=HEAP + 64
    )
    core.module("/app/reader", CODE, 4096)
    core.segments.extend(segments)
    path = folder / "core"
    path.write_bytes(core.build())
    return _native.read_core(str(path))["panic"]


def stack(text: bytes) -> Segment:
    return Segment(STACK, (b"\1" * 1000 + text).ljust(4096, b"\0"))


def test_what_rust_put_together_on_the_stack_of_a_program_that_is_not_here(tmp_path: Path) -> None:
    assert nameless(tmp_path, stack(WORDS)) == ("Rust", "no shard 12 (at src/shard.rs:2:39)")
    long = WORDS.replace(b"shard 12", b"shard " * 99)
    assert len(nameless(tmp_path, stack(long))[1]) < 512 + 30
    own = WORDS.replace(b"src/", b"/rustc/abc/")
    assert nameless(tmp_path, stack(own)) == ("Rust", "no shard 12")


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        pytest.param(WORDS, 11, id="a fault"),
        pytest.param(WORDS.replace(b":\n", b" "), 6, id="no place"),
        pytest.param(WORDS.replace(b"no shard 12", b""), 6, id="no words"),
        pytest.param(WORDS.replace(b"12", b"\1\2"), 6, id="no text"),
        pytest.param(WORDS[:30], 6, id="its end is overwritten"),
    ],
)
def test_what_is_no_panic_of_rust_is_not_told(tmp_path: Path, text: bytes, signal: int) -> None:
    assert nameless(tmp_path, stack(text), signal=signal) is None


AT, PAYLOAD, TABLE, PLACE, FILE = STACK + 2400, STACK + 2600, HEAP, HEAP + 64, HEAP + 128
NO_SHARD = (HEAP + 256, 11)


def hook(payload: tuple[int, ...], **changed: int) -> tuple[Segment, Segment]:
    """Return stack and memory of a panic's hook (library/std/src/panicking.rs)."""
    stack, heap = bytearray(b"\1" * 4096), bytearray(4096)
    words = {"AT": PAYLOAD, "table": TABLE, "place": PLACE, **changed}
    struct.pack_into("<3Q", stack, AT - STACK, words["AT"], words["table"], words["place"])
    struct.pack_into(f"<{len(payload)}Q", stack, PAYLOAD - STACK, *payload)
    size = words.get("size", 8 * len(payload))
    struct.pack_into("<3Q", heap, TABLE - HEAP, 0, size, words.get("alignment", 8))
    line = words.get("line", 2)
    struct.pack_into("<QQII", heap, PLACE - HEAP, words.get("file", FILE), 12, line, 39)
    heap[FILE - HEAP : FILE - HEAP + 12] = b"src/shard.rs"
    heap[256:267] = b"no shard 12"
    return Segment(STACK, bytes(stack)), Segment(HEAP, bytes(heap))


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(NO_SHARD, id="a constant"),
        pytest.param((11, *NO_SHARD), id="a String"),
        pytest.param((16, *NO_SHARD, STACK), id="a String and its arguments"),
    ],
)
def test_what_a_panic_hands_to_its_hook(tmp_path: Path, payload: tuple[int, ...]) -> None:
    said = nameless(tmp_path, *hook(payload))
    assert said == ("Rust", "no shard 12 (at src/shard.rs:2:39)")
    away = nameless(tmp_path, *hook(payload, file=CODE + 64))  # constants are in the program's file
    assert away is not None
    assert away[1].startswith("no shard 12")
    assert "2:39" in away[1]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"size": 40}, id="an object of another size"),
        pytest.param({"alignment": 1}, id="no table"),
        pytest.param({"line": 0}, id="no place"),
        pytest.param({"place": STACK + 8}, id="no place at all"),
        pytest.param({"file": OTHER}, id="a place in no file"),
        pytest.param({"AT": AT - 8}, id="not handed on from outside"),
    ],
)
def test_what_is_no_hook_of_a_panic_is_not_told(tmp_path: Path, changed: dict[str, int]) -> None:
    assert nameless(tmp_path, *hook(NO_SHARD, **changed)) is None


def test_a_text_that_only_the_program_has(tmp_path: Path) -> None:
    language, said = nameless(tmp_path, *hook((CODE + 128, 11), file=CODE + 64))
    assert language == "Rust"
    assert "2:39" in said
    assert nameless(tmp_path, *hook((OTHER, 11), file=CODE + 64)) is None


def test_what_is_handed_on_as_it_is_may_only_begin_like_a_message(tmp_path: Path) -> None:
    assert nameless(tmp_path, *hook((16, *NO_SHARD, 4))) is None


def unwound(said: bytes, **changed: int) -> Segment:
    """Return a heap with a panic that is being unwound (library/panic_unwind/src/gcc.rs)."""
    words = {"kind": int.from_bytes(b"MOZ\0RUST", "little"), "clean_up": CODE + 8, **changed}
    memory = bytearray(struct.pack("<4Q", words["kind"], words["clean_up"], 0, 0))
    memory += struct.pack("<3Q", CODE + 64, OTHER + 128, words.get("table", OTHER + 192))
    memory = memory.ljust(128, b"\0") + struct.pack("<3Q", len(said), OTHER + 256, len(said))
    memory = memory.ljust(192, b"\0") + struct.pack("<3Q", 0, words.get("size", 24), 8)
    return Segment(OTHER, bytes(memory.ljust(256, b"\0") + said).ljust(4096, b"\0"))


def test_a_panic_that_is_unwound_when_another_one_ends_the_process(tmp_path: Path) -> None:
    told = nameless(tmp_path, stack(WORDS), unwound(b"epoch 3 failed"))
    assert told is not None
    assert told[1].startswith("epoch 3 failed")
    assert told[1].endswith("no shard 12 (at src/shard.rs:2:39)")
    same = nameless(tmp_path, stack(WORDS), unwound(b"no shard 12"))
    assert same == ("Rust", "no shard 12 (at src/shard.rs:2:39)")


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"kind": 0}, id="given back"),
        pytest.param({"clean_up": OTHER}, id="not cleaned up by a program"),
        pytest.param({"table": 8}, id="no table"),
        pytest.param({"size": 32}, id="another object"),
    ],
)
def test_what_is_no_panic_under_way_is_not_told(tmp_path: Path, changed: dict[str, int]) -> None:
    told = nameless(tmp_path, stack(WORDS), unwound(b"epoch 3 failed", **changed))
    assert told == ("Rust", "no shard 12 (at src/shard.rs:2:39)")


G, G0, M, PANIC, TEXT = (HEAP + 0x100 * i for i in range(1, 6))


def go(**changed: int) -> Segment:
    """Return the goroutine that panicked, its thread's m and g0 (runtime/runtime2.go)."""
    memory = bytearray(4096)
    words = {56: G0, G: HEAP, G + 8: HEAP + 4096, G + 32: PANIC, G + 48: M, G0 + 48: M, M: G0}
    words |= {M + 64: G, PANIC + 8: CODE, PANIC + 16: TEXT, TEXT: TEXT + 32, TEXT + 8: 11}
    words |= {{"PANIC": G + 32}.get(name, globals()[name]): v for name, v in changed.items()}
    for at, value in words.items():
        struct.pack_into("<Q", memory, at % 4096, value)
    struct.pack_into("11s", memory, TEXT % 4096 + 32, b"no shard 12")
    return Segment(HEAP, bytes(memory))


def test_the_goroutine_of_aarch64_is_in_a_register(tmp_path: Path) -> None:
    core = CoreBuilder(machine=AARCH64).thread(5, 6, pc=CODE + 4, sp=STACK + 2048, x28=G0)
    core.module("/app/reader", CODE, 4096)
    core.segments.extend([stack(b""), go()])
    path = tmp_path / "core"
    path.write_bytes(core.build())
    assert _native.read_core(str(path))["panic"] == ("Go", "no shard 12")


def test_what_a_goroutine_panicked_with_where_the_program_is_not_here(tmp_path: Path) -> None:
    assert nameless(tmp_path, stack(b""), go()) == ("Go", "no shard 12")


@pytest.mark.parametrize(
    "changed",
    [pytest.param({"M": M}, id="m has another g0"), pytest.param({"PANIC": 64}, id="no panic")],
)
def test_what_is_no_goroutine_is_not_told(tmp_path: Path, changed: dict[str, int]) -> None:
    assert nameless(tmp_path, stack(b""), go(**changed)) is None


def test_a_value_that_is_no_text(tmp_path: Path) -> None:
    language, text = nameless(tmp_path, stack(b""), go(TEXT=64))
    assert language == "Go"
    assert "shard" not in text


def test_gos_fatal_error_is_found_among_its_variables(tmp_path: Path) -> None:
    zeros = Segment(CODE + 4096, bytes(999) + b"fatal error: all asleep\n" + bytes(900))
    text = ("Go", "fatal error: all asleep")
    assert nameless(tmp_path, stack(b""), go(TEXT=64), zeros) == text


CHECK, CALLER, CONSTANTS, CALL = 0x1000, 0x1100, 0x1800, 0x1140
CONDITION, NAME, PLACE_OF_CHECK = CONSTANTS, CONSTANTS + 64, CONSTANTS + 128


def lea(at: int, register: int, target: int) -> bytes:
    return bytes([0x48, 0x8D, 5 | register << 3]) + struct.pack("<i", target - at - 7)


def check(
    folder: Path,
    function: str,
    *loads: tuple[int, int],
    line: tuple[int, int],
    text: bytes = b"n>0",
) -> Any:
    """Return what is told of a check that failed: pairs of a register and a constant, in order."""
    at = CALL - 7 * len(loads) - 5
    code = bytes([0xB8 | line[0]]) + struct.pack("<I", line[1])
    for number, (register, target) in enumerate(loads):
        code += lea(at + 5 + 7 * number, register, target)
    code += b"\xe8" + struct.pack("<i", CHECK - CALL - 5)
    image = ImageBuilder(symbols=[(function, CHECK, 64, 1, 2), ("step", CALLER, 256, 1, 2)])
    image.text[at] = code
    constants = b"".join(part.ljust(64, b"\0") for part in (text, b"step", b"/src/a.c"))
    image.text[CONSTANTS] = constants
    image.function(CHECK, 64, b"").function(CALLER, 256, b"")
    core = CoreBuilder(auxv={33: CODE}).thread(5, rip=CODE + CHECK + 4, rsp=STACK + 8)
    stack = struct.pack("<3Q", 0, CODE + CALL + 5, 0)
    core.segments.append(Segment(STACK, stack.ljust(4096, b"\0")))
    core.segments.append(Segment(CODE, image.build(), 5))
    path = folder / "core"
    path.write_bytes(core.build())
    return _native.read_core(str(path))["panic"]


RCX, RDX, RSI, RDI = 1, 2, 6, 7
OF_C = ((RCX, NAME), (RSI, PLACE_OF_CHECK), (RDI, CONDITION))
OF_CXX = ((RCX, CONDITION), (RDX, NAME), (RDI, PLACE_OF_CHECK))


def test_what_a_check_of_musl_or_libstdcxx_was_given(tmp_path: Path) -> None:
    told = ("C", "/src/a.c:7: step: Assertion 'n>0' failed.")
    assert check(tmp_path, "__assert_fail", *OF_C, line=(RDX, 7)) == told
    assert check(tmp_path, "std::__glibcxx_assert_fail", *OF_CXX, line=(RSI, 7)) == told


def test_what_no_check_was_given_is_not_told(tmp_path: Path) -> None:
    assert check(tmp_path, "__assert_fail", *OF_C[:2], line=(RDX, 7)) is None
    assert check(tmp_path, "__assert_fail", *OF_C, line=(RDX, 0)) is None
    assert check(tmp_path, "__assert_fail", *OF_C, line=(RDX, 7), text=b"\1\2") is None
    assert check(tmp_path, "assert_fail", *OF_C, line=(RDX, 7)) is None
