"""Which name an address gets."""

import struct
from pathlib import Path

import pytest

from builders.elf import ElfBuilder
from builders.unwind_cores import CoreBuilder
from builders.unwind_images import FUNC, GLOBAL, LOCAL, NOTYPE, OBJECT, SIZE, WEAK, ImageBuilder
from postmortem import _native

BASE = 0x7F0000000000
STACK = 0x7FFC00000000

Row = tuple[str, int, int, int, int]


def name_at(folder: Path, symbols: list[Row], address: int) -> tuple[str | None, int | None]:
    library = folder / "lib.so"
    library.write_bytes(ImageBuilder(symbols=symbols).build())
    core = CoreBuilder().module(str(library), BASE, SIZE).words(STACK, [0])
    core.thread(rip=BASE + address, rsp=STACK)
    path = folder / "core"
    path.write_bytes(core.build())
    frame = _native.read_core(str(path))["threads"][0]["frames"][0]
    return frame["function"], frame["function_offset"]


@pytest.mark.parametrize(
    ("symbols", "address", "expected"),
    [
        pytest.param([("f", 0x1000, 16, GLOBAL, FUNC)], 0x100F, ("f", 15), id="last byte"),
        pytest.param([("f", 0x1000, 16, GLOBAL, FUNC)], 0x1010, (None, None), id="behind"),
        pytest.param(
            [
                ("l", 0x1000, 16, LOCAL, FUNC),
                ("g", 0x1000, 16, GLOBAL, FUNC),
                ("w", 0x1000, 16, WEAK, FUNC),
            ],
            0x1004,
            ("g", 4),
            id="global first",
        ),
        pytest.param(
            [("l", 0x1000, 16, LOCAL, FUNC), ("w", 0x1000, 16, WEAK, FUNC)],
            0x1004,
            ("w", 4),
            id="weak before local",
        ),
        pytest.param(
            [("__libc_free", 0x1000, 16, GLOBAL, FUNC), ("free", 0x1000, 16, GLOBAL, FUNC)],
            0x1004,
            ("free", 4),
            id="public alias",
        ),
        pytest.param(
            [("label", 0x1008, 0, GLOBAL, NOTYPE), ("f", 0x1000, 32, LOCAL, FUNC)],
            0x1010,
            ("f", 16),
            id="sized over label",
        ),
        pytest.param([("start", 0x1000, 0, GLOBAL, FUNC)], 0x1020, ("start", 32), id="no size"),
        pytest.param(
            [("start", 0x1000, 0, GLOBAL, FUNC), ("next", 0x1010, 4, GLOBAL, FUNC)],
            0x1020,
            (None, None),
            id="no size, another in between",
        ),
        pytest.param(
            [("inner", 0x1010, 8, LOCAL, FUNC), ("outer", 0x1000, 64, GLOBAL, FUNC)],
            0x1020,
            ("outer", 32),
            id="around a smaller one",
        ),
        pytest.param(
            [("far", 0x1000, 1 << 40, GLOBAL, FUNC)], 0x2100, (None, None), id="section ends"
        ),
        pytest.param([("table", 0x1000, 64, GLOBAL, OBJECT)], 0x1010, (None, None), id="data"),
        pytest.param(
            [("_ZN3c105Error4whatEv", 0x1000, 64, GLOBAL, FUNC)],
            0x1001,
            ("c10::Error::what()", 1),
            id="demangled",
        ),
    ],
)
def test_name(
    tmp_path: Path, symbols: list[Row], address: int, expected: tuple[str | None, int | None]
) -> None:
    assert name_at(tmp_path, symbols, address) == expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (0x00, ("main.step", 0)),
        (0x3F, ("main.step", 0x3F)),
        (0x40, ("main.load", 0)),
        (0x60, (None, None)),
    ],
)
def test_names_of_a_stripped_go_program(
    tmp_path: Path, at: int, expected: tuple[str | None, int | None]
) -> None:
    """runtime/symtab.go, pcHeader: names, then rows of functions, the last one only an end."""
    text, names = 0x1000, b"main.step\0main.load\0".ljust(24, b"\0")
    rows = struct.pack("<5I", 0, 20, 0x40, 28, 0x60) + struct.pack("<4I", 0, 0, 0x40, 10)
    header = struct.pack("<IBBBBQQQQQQQQ", 0xFFFFFFF1, 0, 0, 1, 8, 2, 0, text, 72, 0, 0, 0, 96)
    library = tmp_path / "tool"
    sections = {b".text": bytes(0x1800), b".gopclntab": header + names + rows}
    library.write_bytes(ElfBuilder(sections=sections).build())
    core = CoreBuilder().module(str(library), BASE, SIZE).words(STACK, [0])
    core.thread(rip=BASE + text + at, rsp=STACK)
    path = tmp_path / "core"
    path.write_bytes(core.build())
    frame = _native.read_core(str(path))["threads"][0]["frames"][0]
    assert (frame["function"], frame["function_offset"]) == expected
