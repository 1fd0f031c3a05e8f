"""The border: what read_core() gives is what _native.pyi promises, key by key."""

import ast
from pathlib import Path

import pytest

import postmortem
from builders import elf


def promised() -> dict[str, set[str]]:
    """Return the keys of each TypedDict in the stub."""
    stub = Path(postmortem.__file__).with_name("_native.pyi").read_text()
    return {
        node.name: {
            row.target.id
            for row in node.body
            if isinstance(row, ast.AnnAssign) and isinstance(row.target, ast.Name)
        }
        for node in ast.parse(stub).body
        if isinstance(node, ast.ClassDef)
    }


@pytest.fixture
def given(read, tmp_path):
    """Return one row of each kind, from a core that has them all."""
    base = 0x7F0000000000
    library = elf.ElfBuilder(build_id=bytes(20)).build()
    core = elf.CoreBuilder().thread(1, 11, pc=base + 64).process(1).siginfo(11, 1, address=8)
    core.files([(base, base + 0x1000, 0, b"/nowhere/libx.so")])
    core.segment(base, library, elf.PF_R | elf.PF_X, memsz=0x1000)
    core.raw_note(b"\xff" * 24)
    report = read(core)
    return {
        "RawCore": report,
        "RawThread": report["threads"][0],
        "RawModule": report["modules"][0],
        "RawSignal": report["signal"],
        "RawProblem": report["problems"][0],
        "RawFrame": report["threads"][0]["frames"][0],
        "RawAddress": report["pc"],
        "RawInstruction": report["instruction"],
    }


KINDS = (
    *("RawCore", "RawThread", "RawModule", "RawSignal", "RawProblem"),
    *("RawFrame", "RawAddress", "RawInstruction"),
)


@pytest.mark.parametrize("name", KINDS)
def test_keys(given, name):
    assert set(given[name]) == promised()[name]
