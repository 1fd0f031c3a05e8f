"""Modules: whether the file on disk is the one that was mapped."""

import os
import struct
from pathlib import Path

import pytest

from builders import elf

BASE = 0x7F0000000000
ID, OTHER = bytes(range(20)), bytes(range(1, 21))


def library(build_id: bytes | None = ID, **how) -> bytes:
    """Return a small shared object."""
    return elf.ElfBuilder(build_id=build_id, **how).build()


def core_of(path: Path | str | bytes, data: bytes | None, base: int = BASE) -> elf.CoreBuilder:
    """Return a core that had `data` mapped from `path`; None: its header was not dumped."""
    name = os.fsencode(path)
    core = elf.CoreBuilder().thread(1, 11).files([(base, base + 0x1000, 0, name)])
    return core.segment(base, data or b"", elf.PF_R | elf.PF_X, memsz=0x1000)


def only(report):
    """Return the one module of a report."""
    assert len(report["modules"]) == 1
    return report["modules"][0]


@pytest.mark.parametrize(
    ("mapped", "on_disk", "status"),
    [
        (library(), library(), "ok"),
        (library(), None, "missing"),
        (library(), library(OTHER), "mismatch"),
        (library(), library(None), "mismatch"),
        (library(None), library(None), "unverified"),
        (library(None), library(None, sections={b".x": b"12345678"}), "mismatch"),
        (None, library(), "unverified"),
        (library(), b"#!/bin/sh\n", "mismatch"),
        (library(), b"", "mismatch"),
        (library(), b"\x7fELF", "mismatch"),
        (library(None), library(None, machine=elf.EM_AARCH64), "mismatch"),
    ],
)
def test_status(read, tmp_path, mapped, on_disk, status):
    path = tmp_path / "libx.so"
    if on_disk is not None:
        path.write_bytes(on_disk)
    row = only(read(core_of(path, mapped)))
    assert row["status"] == status
    assert (row["start"], row["end"], row["path"]) == (BASE, BASE + 0x1000, str(path))
    if mapped and elf.build_id_note(ID) in mapped:
        assert row["build_id"] == ID.hex()


@pytest.mark.parametrize(("pages", "status"), [(1, "unverified"), (2, "mismatch")])
def test_without_a_build_id_the_size_of_the_code_tells(read, tmp_path, pages, status):
    """coredump_filter 0x1 leaves headers out: the library here may be that of another release."""
    path = tmp_path / "libx.so"
    path.write_bytes(library())
    name, size = os.fsencode(path), pages * elf.PAGE
    core = elf.CoreBuilder().thread(1, 11)
    core.files([(BASE, BASE + size, 0, name), (BASE + size, BASE + 2 * size, size, name)])
    core.segment(BASE, b"", elf.PF_R | elf.PF_X, memsz=size)
    core.segment(BASE + size, b"", elf.PF_R | elf.PF_W, memsz=size)
    assert only(read(core))["status"] == status


def test_deleted_file_keeps_its_build_id(read, tmp_path):
    row = only(read(core_of(f"{tmp_path}/libx.so (deleted)", library())))
    assert (row["status"], row["build_id"]) == ("missing", ID.hex())
    assert row["path"] == f"{tmp_path}/libx.so"


def test_fifo_in_its_place_does_not_block(read, tmp_path):
    path = tmp_path / "libx.so"
    os.mkfifo(path)
    assert only(read(core_of(path, library())))["status"] == "missing"


def test_folder_in_its_place(read, tmp_path):
    path = tmp_path / "libx.so"
    path.mkdir()
    assert only(read(core_of(path, library())))["status"] == "missing"


def test_huge_sparse_file_in_its_place(read, tmp_path):
    path = tmp_path / "libx.so"
    path.write_bytes(b"")
    os.truncate(path, 1 << 42)
    assert only(read(core_of(path, library())))["status"] == "mismatch"


def test_same_path_mapped_twice(read, tmp_path):
    path = tmp_path / "libx.so"
    path.write_bytes(library())
    name = os.fsencode(path)
    second = BASE + 0x100000
    core = elf.CoreBuilder().thread(1, 11)
    core.files([(BASE, BASE + 0x1000, 0, name), (second, second + 0x1000, 0, name)])
    for at in (BASE, second):
        core.segment(at, library(), elf.PF_R | elf.PF_X, memsz=0x1000)
    rows = read(core)["modules"]
    assert [(m["start"], m["status"]) for m in rows] == [(BASE, "ok"), (second, "ok")]


def test_relro_split_at_offset_zero_is_one_module(read, tmp_path):
    path = tmp_path / "libx.so"
    path.write_bytes(library())
    name = os.fsencode(path)
    middle, end = BASE + 0x1000, BASE + 0x2000
    core = elf.CoreBuilder().thread(1, 11).files([(BASE, middle, 0, name), (middle, end, 0, name)])
    core.segment(BASE, library(), elf.PF_R, memsz=0x1000)
    core.segment(middle, b"", elf.PF_R | elf.PF_X, memsz=0x1000)
    row = only(read(core))
    assert (row["start"], row["end"], row["status"]) == (BASE, end, "ok")


def test_sysroot(read, tmp_path):
    inside = tmp_path / "root/opt/libx.so"
    inside.parent.mkdir(parents=True)
    inside.write_bytes(library())
    core = core_of("/opt/libx.so", library())
    assert only(read(core))["status"] == "missing"
    row = only(read(core, sysroot=str(tmp_path / "root")))
    assert (row["status"], row["disk_path"]) == ("ok", str(inside))


def test_other_executable_is_told_and_not_believed(read, tmp_path, problems):
    own, given = tmp_path / "own", tmp_path / "given"
    own.write_bytes(library())
    given.write_bytes(library(OTHER))
    core = core_of(own, library()).auxv({elf.AT_PHDR: BASE + 64})
    report = read(core, executable=str(given))
    assert ID.hex() in problems(report)
    assert OTHER.hex() in problems(report)
    row = only(report)
    assert (row["status"], row["disk_path"]) == ("ok", str(own))


@pytest.mark.parametrize("content", [b"#!/bin/sh\n", None])
def test_executable_that_is_none(read, tmp_path, problems, content):
    own, given = tmp_path / "own", tmp_path / "given"
    own.write_bytes(library())
    if content is not None:
        given.write_bytes(content)
    report = read(core_of(own, library()).auxv({elf.AT_PHDR: BASE + 64}), executable=str(given))
    assert str(given) in problems(report)
    assert only(report)["status"] == "ok"


@pytest.mark.parametrize("first", [True, False])
def test_the_loaders_list_is_found_without_the_programs_headers(read, first):
    """qemu dumps no clean page and notes no files: the program's data leads to the list."""
    program, lib, heap = 0x5500000000, 0x5500100000, 0x5500200000
    debug, own, other, names = heap, heap + 64, heap + 128, heap + 256
    dynamic = struct.pack("<4Q", 1, 0, 21, debug) if first else bytes(32)
    rows = struct.pack("<5Q", program, names, program + 0x2000, other, 0).ljust(64, b"\0")
    rows += struct.pack("<5Q", lib, names + 1, lib + 0x2000, 0, own).ljust(128, b"\0")
    core = elf.CoreBuilder(machine=183).process(name=b"prog").thread(1, 11, pc=lib + 8)
    core.auxv({elf.AT_PHDR: program + 64, elf.AT_ENTRY: program + 512, 5: 9, 6: 4096})
    for base, data in ((program, dynamic), (lib, b"")):
        core.segment(base, b"", elf.PF_R | elf.PF_X, memsz=0x1000)
        core.segment(base + 0x1000, b"", 0, memsz=0x1000)
        core.segment(base + 0x2000, data.ljust(0x1000, b"\0"))
        core.segment(base + 0x3000, bytes(0x1000), elf.PF_R | elf.PF_W)
    words = struct.pack("<2Q", 1, own).ljust(64, b"\0") + rows + b"\0/gone/libx.so\0"
    core.segment(heap, words, elf.PF_R | elf.PF_W)
    found = {row["path"]: (row["start"], row["end"]) for row in read(core)["modules"]}
    if first:
        assert found == {"prog": (program, program + 0x4000), "/gone/libx.so": (lib, lib + 0x4000)}
    else:
        assert found == {"prog": (program, program + 0x1000)}


def test_path_that_is_no_utf8_can_be_opened_again(read, tmp_path):
    name = os.fsencode(tmp_path) + b"/lib\xff\xfe.so"
    Path(os.fsdecode(name)).write_bytes(library())
    row = only(read(core_of(name, library())))
    assert (row["status"], os.fsencode(row["path"])) == ("ok", name)
