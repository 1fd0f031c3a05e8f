"""C++ exceptions and std::terminate in cores whose program and libraries are not here."""

import struct

import pytest

from builders import elf

HEAP, SP = 0x7F0000200000, 0x7FFF0000
LIBC, RUNTIME = 0x7F0000000000, 0x7F0000100000
OBJECT = HEAP + 256
GNU, CLANG = 0x474E5543432B2B00, 0x434C4E47432B2B00
SIGABRT, SI_TKILL = 6, -6
SIGSEGV, SEGV_MAPERR, SI_KERNEL = 11, 1, 128
RW, RX = elf.PF_R | elf.PF_W, elf.PF_R | elf.PF_X


def core(
    words: dict[int, int],
    heap: bytes = b"",
    runtime: bytes = b"/gone/libstdc++.so.6",
    *,
    ended: tuple[int, int] = (SIGABRT, SI_TKILL),
    pid: int = 1000,
) -> elf.CoreBuilder:
    """Return an abort in a C library that is not here; `words` are those of its stack."""
    stack = bytearray(2048)
    for at, word in words.items():
        struct.pack_into("<Q", stack, at, word)
    made = elf.CoreBuilder().thread(1000, ended[0], pc=LIBC + 64, sp=SP).process(pid)
    made.siginfo(*ended, pid=1000 if ended[0] == SIGABRT else 0)
    ends = [(LIBC, b"/gone/libc.so.6"), (RUNTIME, runtime)]
    made.files([(start, start + elf.PAGE, 0, path) for start, path in ends])
    for start, _ in ends:
        made.segment(start, b"", RX, memsz=elf.PAGE)
    made.segment(HEAP, heap.ljust(elf.PAGE, b"\0"), RW)
    return made.segment(SP, bytes(stack), RW)


def thrown(content: bytes, kind: int = GNU, *, count: int = 1) -> bytes:
    """Return the heap with a __cxa_exception before the object; its type lies in the library."""
    head = bytearray(OBJECT - HEAP)
    struct.pack_into("<Q", head, len(head) - 112, RUNTIME + 8)
    struct.pack_into("<Q", head, len(head) - 32, kind)
    references = len(head) - 112 - (16 if kind == GNU else 8)
    struct.pack_into("<Q", head, references, count)
    return bytes(head) + content


TERMINATED = dict.fromkeys((264, 312, 328), RUNTIME + 128)
"""Return addresses of std::terminate's own handler."""
OWN_HANDLER = dict.fromkeys((280, 296, 312), RUNTIME + 128)
"""Those of std::terminate() and a throw, outside of a program's own handler."""
TEXT = b"shard 12 of 64 is missing"
LONG = struct.pack("<3Q", OBJECT + 64, len(TEXT), 40).ljust(64, b"\0") + TEXT + b"\0"
SHORT = struct.pack("<2Q", OBJECT + 16, 5) + b"shard\0"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (LONG, TEXT.decode()),
        (SHORT, "shard"),
        (bytes(8) + struct.pack("<2Q", OBJECT + 24, 5) + b"shard\0", "shard"),
        # of libc++
        (struct.pack("<3Q", 49, 25, OBJECT + 64).ljust(64, b"\0") + TEXT, TEXT.decode()),
        (struct.pack("<3Q", 48, 25, OBJECT + 64).ljust(64, b"\0") + TEXT, None),
        (LONG.replace(b" is", b"\0is"), None),  # shorter than it says
        (struct.pack("<2Q", OBJECT + 24, 5) + bytes(8) + b"shard\0", None),
        (struct.pack("<3Q", OBJECT + 64, len(TEXT), 8).ljust(64, b"\0") + TEXT + b"\0", None),
    ],
)
def test_what_a_thrown_string_says_whose_type_is_not_here(read, content, what):
    report = read(core(TERMINATED | {512: OBJECT - 32}, thrown(content)))
    assert [row["what"] for row in report["exceptions"]] == [what]


@pytest.mark.parametrize(
    ("words", "found"), [(TERMINATED, 1), (OWN_HANDLER, 1), ({280: RUNTIME + 128}, 0)]
)
def test_who_aborts_with_an_exception_at_hand_has_not_thrown_it(read, words, found):
    report = read(core(words | {512: OBJECT - 32}, thrown(SHORT)))
    assert len(report["exceptions"]) == found


@pytest.mark.parametrize(("count", "found"), [(1, 1), (0, 0)])
def test_the_object_alone_leads_to_an_exception_of_libcxxabi(read, count, found):
    core_ = core(
        TERMINATED | {512: OBJECT}, thrown(SHORT, CLANG, count=count), b"/gone/libc++abi.so.1"
    )
    assert len(read(core_)["exceptions"]) == found


@pytest.mark.parametrize(
    ("at", "frames"), [((264, 312, 328), 2), ((264, 312, 336), 1), ((1264, 1312, 1328), 1)]
)
def test_terminate_is_told_by_three_return_addresses(read, at, frames):
    report = read(core(dict.fromkeys(at, RUNTIME + 128)))
    [thread] = report["threads"]
    assert len(thread["frames"]) == frames
    assert thread["frames"][-1]["trust"] == ("scan" if frames == 2 else "context")


@pytest.mark.parametrize(
    ("ended", "pid", "found"),
    [((SIGSEGV, SI_KERNEL), 1, 1), ((SIGSEGV, SI_KERNEL), 1000, 0), ((SIGSEGV, SEGV_MAPERR), 1, 0)],
)
def test_abort_of_a_containers_first_process_comes_to_hlt(read, ended, pid, found):
    content = thrown(SHORT)
    report = read(core(TERMINATED | {512: OBJECT - 32}, content, ended=ended, pid=pid))
    assert len(report["exceptions"]) == found
    assert len(report["threads"][0]["frames"]) == 1 + found


TYPE, META, STATE = OBJECT + 512, OBJECT + 640, OBJECT + 384


def python_error(at: int, meta: int) -> bytes:
    """Return pybind11's exception, whose text is in what it shares, or PyTorch's own."""
    content = bytearray(1024)
    error = STATE - OBJECT if at else 8
    struct.pack_into("<2Q", content, 0, RUNTIME + 16, STATE if at else TYPE)
    struct.pack_into("<3Q2Q", content, error, TYPE, TYPE, 0, STATE + 64, 19)
    struct.pack_into("<Q", content, TYPE + 8 - OBJECT, META)
    struct.pack_into("<Q", content, META + 8 - OBJECT, meta)
    struct.pack_into("20s", content, STATE + 64 - OBJECT, b"ValueError: no rows")
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (python_error(1, META), "ValueError: no rows"),
        (python_error(0, META), "ValueError: no rows"),
        (python_error(1, TYPE), None),  # no type of Python stands there
        (python_error(0, TYPE), None),
    ],
)
def test_a_python_error_whose_c_type_is_not_here(read, content, what):
    report = read(core(TERMINATED | {512: OBJECT - 32}, thrown(content)))
    assert [row["what"] for row in report["exceptions"]] == [what]
