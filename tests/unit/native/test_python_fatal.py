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


def fatal(folder: Path, words: tuple[int, ...], *, signal: int = 6, code: int = -6) -> Any:
    core = CoreBuilder(auxv={3: PYTHON + 64}).thread(5, signal, rip=C + 4, rsp=STACK + 8)
    for path, at in (("python3.13", PYTHON), ("libc.so.6", C), ("fastops.so", OPS)):
        core.module(f"/usr/lib/{path}", at, 0x2000)
        core.segments.append(Segment(at + 0x2000, b"", 4, 0x1000))
        core.files.append((at + 0x2000, at + 0x3000, 0x2000, f"/usr/lib/{path}"))
    core.words(STACK, [0, *words], size=4096)
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


def test_who_did_not_abort_met_no_fatal_error(tmp_path: Path) -> None:
    assert fatal(tmp_path, FORM, signal=11) is None
    assert fatal(tmp_path, FORM, code=0) is None
