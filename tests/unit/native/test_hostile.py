"""Bad input: it is named in words, nothing crashes or hangs, and what can be read is read."""

import multiprocessing
import os
import resource
import socket
import struct
import sys
import time

import pytest

from builders import elf
from postmortem import _native
from postmortem.errors import EvidenceError

LIBRARY = elf.ElfBuilder(build_id=bytes(20)).build()
BASE = 0x7F0000000000


def full() -> elf.CoreBuilder:
    """Return a core with one of everything."""
    core = elf.CoreBuilder().thread(71, 11, sp=0x7FFC00000100).process(71).siginfo(11, 1)
    core.auxv({elf.AT_PHDR: BASE + 64}).files([(BASE, BASE + 0x1000, 0, b"/nowhere/libx.so")])
    core.thread(72).segment(BASE, LIBRARY, elf.PF_R | elf.PF_X, memsz=0x1000)
    return core.segment(0x7FFC00000000, b"stack" * 100, elf.PF_R | elf.PF_W, memsz=0x2000)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#!/bin/sh\n",
        b"\x7fEL",
        b"\x7fELF\x01\x01",
        b"\x7fELF\x02\x02",
        b"\x7fELF\x02\x01",
        elf.elf_header(endian=">", machine=elf.EM_S390),
        elf.elf_header(machine=elf.EM_S390),
        elf.elf_header(type=elf.ET_EXEC),
        LIBRARY,
        elf.elf_header(type=elf.ET_REL),
        elf.elf_header(),
        elf.elf_header(phnum=1, phentsize=32),
        elf.elf_header(phnum=1, phoff=1 << 63),
        elf.elf_header(phnum=1, phoff=2**64 - 1),
    ],
)
def test_not_a_core_we_read(read, data, prose):
    with pytest.raises(EvidenceError) as refused:
        read(data)
    prose(refused.value)


def test_error_carries_its_offset(read):
    with pytest.raises(EvidenceError) as caught:
        read(elf.elf_header(machine=elf.EM_S390))
    assert caught.value.offset == 18


def test_folder_fifo_socket_missing(tmp_path, prose):
    fifo, sock = tmp_path / "fifo", str(tmp_path / "sock")
    os.mkfifo(fifo)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sock)
        for path in (tmp_path, fifo, sock, tmp_path / "none", "/dev/null"):
            with pytest.raises(EvidenceError) as refused:
                _native.read_core(str(path))
            prose(refused.value)


def _read_as_nobody(path: str, answer: multiprocessing.SimpleQueue) -> None:
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        _native.read_core(path)
    except EvidenceError as error:
        answer.put(str(error))
    else:
        answer.put("was read")


def test_no_permission(tmp_path):
    path = tmp_path / "core"
    path.write_bytes(full().build())
    path.chmod(0)
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    child = context.Process(target=_read_as_nobody, args=(str(path), answer))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert "Permission denied" in answer.get()


@pytest.mark.parametrize("machine", [elf.EM_X86_64, elf.EM_AARCH64])
@pytest.mark.parametrize("gcore", [False, True])
def test_cut_at_every_byte(damage, read, tmp_path, machine, gcore):
    core = full()
    core.gcore = gcore
    if machine == elf.EM_AARCH64:
        core = elf.CoreBuilder(machine, gcore).thread(71, 11).process(71).thread(72)
        core.segment(0, b"x" * 64)
    data = core.build()
    whole = read(data)
    assert (damage(whole), len(whole["threads"])) == ([], 2)
    threads = []
    path = tmp_path / "cut"
    path.write_bytes(data)
    for size in reversed(range(len(data))):
        os.truncate(path, size)
        try:
            report = _native.read_core(str(path))
        except EvidenceError:
            continue
        assert damage(report), f"nothing said of a core cut at {size}"
        assert report["expected_bytes"] > report["size_bytes"] == size
        threads.append(len(report["threads"]))
    assert threads == sorted(threads, reverse=True), "a longer file gave fewer threads"
    assert threads[0] == 2


@pytest.mark.parametrize(
    "lie",
    [
        elf.note(b"CORE\0", 1, b"", namesz=0xFFFFFFFF),
        elf.note(b"CORE\0", 1, b"", descsz=0xFFFFFFFF),
        elf.note(b"CORE\0", 1, b"", namesz=0xFFFFFFFF, descsz=0xFFFFFFFF),
        elf.note(b"CORE\0", elf.NT_PRSTATUS, bytes(100)),
        elf.note(b"CORE\0", elf.NT_PRSTATUS, b""),
        elf.note(b"CORE\0", elf.NT_FILE, b""),
        elf.note(b"CORE\0", elf.NT_FILE, elf.file_note([], count=1 << 60)),
        elf.note(b"CORE\0", elf.NT_FILE, elf.file_note([(1, 2, 0, b"/a")], page_size=0)),
        elf.note(b"CORE\0", elf.NT_FILE, elf.file_note([(1, 2, 0, b"/a")], page_size=4097)),
        elf.note(b"CORE\0", elf.NT_FILE, elf.file_note([(1, 2, 0, b"/a")], page_size=1 << 63)),
        elf.note(b"CORE\0", elf.NT_FILE, elf.file_note([(2, 1, 0, b"/a")])),
        elf.note(b"CORE\0", elf.NT_FILE, elf.file_note([(1, 2, 1 << 63, b"/a")])),
        elf.note(b"CORE\0", elf.NT_FILE, elf.file_note([(1, 2, 0, b"")], names=b"/no/end")),
        bytes(8192),
    ],
)
def test_lying_note_is_told_and_costs_nothing_else(read, problems, lie):
    core = elf.CoreBuilder().thread(71, 11).process(71).thread(72).segment(0x1000, b"x" * 8)
    report = read(core.raw_note(lie))
    assert [t["tid"] for t in report["threads"]] == [71, 72]
    assert report["modules"] == []
    assert "note" in problems(report)


def test_short_process_and_signal_are_told(read, problems):
    core = elf.CoreBuilder().thread(1, 11)
    core.raw_note(elf.note(b"CORE\0", elf.NT_PRPSINFO, bytes(8)))
    core.raw_note(elf.note(b"CORE\0", elf.NT_SIGINFO, bytes(4)))
    report = read(core)
    assert "process information of 8 bytes" in problems(report)
    assert "signal information of 4 bytes" in problems(report)
    assert report["signal"] is None


def test_second_list_of_files_is_not_believed(read, problems):
    again = elf.file_note([(1, 2, 0, b"/other")])
    report = read(full().raw_note(elf.note(b"CORE\0", elf.NT_FILE, again)))
    assert [m["path"] for m in report["modules"]] == ["/nowhere/libx.so"]
    assert "a second list" in problems(report)


def test_overlapping_segments(read, problems):
    report = read(full().segment(BASE + 0x800, b"y" * 64, memsz=0x1000))
    assert "1 overlap others" in problems(report)
    assert report["modules"][0]["build_id"] == bytes(20).hex()


def test_segments_beyond_the_address_space(read, problems, prose):
    core = full().segment(2**64 - 0x1000, b"z" * 16, memsz=1 << 63)
    report = read(core.segment(2**64 - 1, b"", memsz=2**64 - 1))
    prose(problems(report))
    assert len(report["threads"]) == 2


def test_segment_that_promises_the_moon(read, problems):
    report = read(full().segment(0x1000, b"", memsz=0x1000, filesz=1 << 60, offset=0x2000))
    assert "cut off" in problems(report)
    assert len(report["threads"]) == 2


def test_duplicate_threads_are_told(read, problems):
    report = read(elf.CoreBuilder().thread(7, 11).thread(7))
    assert "more than once" in problems(report)


def test_no_notes_at_all(read, prose):
    data = elf.elf_header(phnum=1) + elf.program_header(1, 4, 120, 0x1000, 0, 0x1000)
    with pytest.raises(EvidenceError) as refused:
        read(data)
    prose(refused.value)


@pytest.mark.parametrize("said", [0, 1 << 31, 2**32 - 1])
def test_segment_count_in_the_section_header_lies(read, said):
    core = elf.CoreBuilder(xnum=True, section_count=said).thread(1, 11)
    report = read(core.segment(0x1000, b"x" * 16))
    assert [t["tid"] for t in report["threads"]] == [1]


def test_many_notes_over_the_same_bytes_do_not_multiply(read):
    """60,000 PT_NOTE that share 1 MB would be an hour's work, and 60 GB of threads."""
    inside = elf.CoreBuilder().thread(1, 11).notes() * 3000
    count = 60_000
    at = 64 + 56 * count
    header = elf.program_header(elf.PT_NOTE, 0, at, 0, len(inside), 0)
    start = time.process_time()
    report = read(elf.elf_header(phnum=count) + header * count + inside)
    assert time.process_time() - start < 2
    assert 3000 <= len(report["threads"]) <= 15_000


def test_sparse_hole_instead_of_notes_is_not_walked(tmp_path, problems):
    path = tmp_path / "core"
    head = elf.elf_header(phnum=1) + elf.program_header(elf.PT_NOTE, 0, 4096, 0, 1 << 40, 0)
    path.write_bytes(head)
    os.truncate(path, 1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    report = _native.read_core(str(path))
    assert time.process_time() - start < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB
    assert "zeros" in problems(report)


def test_billions_of_headers_in_a_hole(tmp_path, prose):
    path = tmp_path / "core"
    head = elf.elf_header(phnum=elf.PN_XNUM, shoff=4096, phoff=8192)
    section = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1, 0, 2**32 - 1, 0, 0)
    path.write_bytes(head.ljust(4096, b"\0") + section)
    os.truncate(path, 1 << 40)
    start = time.process_time()
    with pytest.raises(EvidenceError) as refused:
        _native.read_core(str(path))
    prose(refused.value)
    assert time.process_time() - start < 2


def _read_while_cut(path: str) -> None:
    """Read a core again and again while another process cuts it and writes it anew."""
    for _ in range(1000):
        try:
            _native.read_core(path)
        except EvidenceError:
            continue
    sys.exit(0)


def test_core_that_shrinks_while_it_is_read(tmp_path):
    path = tmp_path / "core"
    core = elf.CoreBuilder()
    for tid in range(1, 200):
        core.thread(tid, 11)
    data = core.segment(0x1000, bytes(8192)).build()
    path.write_bytes(data)
    reader = multiprocessing.get_context("fork").Process(target=_read_while_cut, args=(str(path),))
    reader.start()
    cuts = 0
    with path.open("r+b") as file:
        while reader.is_alive():
            os.truncate(path, 4096)
            file.seek(0)
            file.write(data)
            file.flush()
            cuts += 1
    reader.join()
    assert cuts > 10
    assert reader.exitcode == 0, "a page that was cut away killed the reader"


def test_first_thread_lost_means_no_crashed_thread_is_named(read, problems):
    """The kernel writes the crashed thread first; without it another must not be blamed."""
    core = elf.CoreBuilder().thread(71, 11, size=100).process(71).thread(72)
    report = read(core)
    assert [t["tid"] for t in report["threads"]] == [72]
    assert "too short" in problems(report)
    assert report.get("crashed_tid") is None


def test_name_that_doubles_with_each_substitution():
    """200 bytes of mangled name are 3.4 MB in source form, 270 bytes 218 MB."""
    name = "_Z1f1A1BIS_S_E"
    for digit in "123456789ABCDEFGH":
        name += f"S0_IS{digit}_S{digit}_E"
    assert len(_native.demangle([name])[0]) < 100_000
