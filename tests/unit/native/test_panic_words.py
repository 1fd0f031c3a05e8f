"""What run-times that move their objects leave of an exception: in their heaps, on the stack."""

import struct
from pathlib import Path
from typing import Any

import pytest

from builders.unwind_cores import CoreBuilder, Segment
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
