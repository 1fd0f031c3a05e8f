"""A fatal Python error of an interpreter whose file is not here, by the form of its stack."""

import struct
from pathlib import Path
from typing import Any

import pytest

from builders.unwind_cores import CoreBuilder, Segment, note
from postmortem import _native

PYTHON, C, OPS, STACK, HEAP = 0x400000, 0x7F0000000000, 0x7F0000100000, 0x7FFC00000000, 0x9000000
SAID = HEAP + 64
FORM = (C + 8, PYTHON + 64, 0, OPS + 0x2040, OPS + 0x2080, HEAP, PYTHON + 128, OPS + 4)


def fatal(
    folder: Path,
    words: tuple[int, ...],
    *,
    signal: int = 6,
    code: int = -6,
    left: bytes = bytes(8),
    texts: bytes = b"",
) -> Any:
    left = left.ljust(64, b"\0") if any(left) else left
    core = CoreBuilder(auxv={3: PYTHON + 64}).thread(5, signal, rip=C + 4, rsp=STACK + len(left))
    for path, at in (("python3.13", PYTHON), ("libc.so.6", C), ("fastops.so", OPS)):
        core.module(f"/usr/lib/{path}", at, 0x2000)
        core.segments.append(Segment(at + 0x2000, texts if at == PYTHON else b"", 4, 0x1000))
        core.files.append((at + 0x2000, at + 0x3000, 0x2000, f"/usr/lib/{path}"))
    stack = left + b"".join(struct.pack("<Q", word) for word in words)
    core.segments.append(Segment(STACK, stack, size=4096))
    core.segments.append(Segment(HEAP, bytes(64) + b"reader\0\0no cache was made\0".ljust(900)))
    core.notes.append(note(0x53494749, struct.pack("<iii", signal, 0, code).ljust(128, b"\0")))
    path = folder / "core"
    path.write_bytes(core.build())
    return _native.read_core(str(path))["python_fatal"]


def test_two_constants_beside_what_abort_returns_to(tmp_path: Path) -> None:
    assert fatal(tmp_path, FORM) == ("", "")


@pytest.mark.parametrize(
    ("at", "word"),
    [
        pytest.param(3, HEAP, id="one constant"),
        pytest.param(1, HEAP, id="no CPython before them"),
        pytest.param(6, HEAP, id="no CPython behind them"),
        pytest.param(1, OPS + 64, id="a library called abort"),
        pytest.param(4, PYTHON + 64, id="a return address"),
    ],
)
def test_another_form_is_none(tmp_path: Path, at: int, word: int) -> None:
    assert fatal(tmp_path, (*FORM[:at], word, *FORM[at + 1 :])) is None


FORMATTED = (C + 8, PYTHON + 64, 2, PYTHON + 0x2040, HEAP, PYTHON + 0x2080, 0, PYTHON + 128)


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (b"\x01tstate 0x7f12 is still current\x7f\0", "tstate 0x7f12 is still current"),
        (b"\0tstate \xdd is still current", r"tstate \xdd is still current"),
        (b"\0tstate 0x1\0\0 is still current", None),
        (b"\0tstate 0x7f12 is", None),
    ],
)
def test_a_formatted_message_lies_in_the_stack_that_was_left(
    tmp_path: Path, left: bytes, said: str | None
) -> None:
    texts = bytes(64) + b"stop_loop".ljust(64, b"\0") + b"tstate %p is still current\0"
    found = fatal(tmp_path, FORMATTED, left=left, texts=texts)
    assert found == (None if said is None else ("stop_loop", said))


def test_who_did_not_abort_met_no_fatal_error(tmp_path: Path) -> None:
    assert fatal(tmp_path, FORM, signal=11) is None
    assert fatal(tmp_path, FORM, code=0) is None
