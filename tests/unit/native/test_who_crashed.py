"""Which thread the signal hit, by the notes of those who write cores."""

import struct

import pytest

from builders import elf
from postmortem import _native
from postmortem.errors import EvidenceError

SIGABRT, SIGBUS, SIGSEGV, SIGSTOP, SIGTRAP = 6, 7, 11, 19, 5
SEGV_MAPERR, SI_USER, SI_TKILL = 1, 0, -6
STOPPED = (SIGSTOP, SI_USER, 0)
FAULTED = (SIGSEGV, SEGV_MAPERR, 0xABC)
ORIGINAL_RAX = 15
OUTSIDE = (1 << 64) - 1


def gdb() -> elf.CoreBuilder:
    return elf.CoreBuilder(gcore=True).process(71).auxv({6: 4096})


@pytest.mark.parametrize("last", [True, False])
def test_gdb_7_writes_the_signal_into_all_and_the_stopped_threads_first(read, last):
    order = [(72, STOPPED), (73, STOPPED)]
    order.insert(2 if last else 1, (71, FAULTED))
    core = gdb()
    for tid, info in order:
        core.thread(tid, SIGSEGV, info=info)
    report = read(core)
    assert report["crashed_tid"] == 71
    assert (report["signal"]["number"], report["signal"]["address"]) == (SIGSEGV, 0xABC)


def test_a_snapshot_by_gdb_has_no_crashed_thread(read):
    report = read(gdb().thread(71, 0, info=STOPPED).thread(72, 0, info=STOPPED))
    assert report["origin"] == "gcore"
    assert report["crashed_tid"] is None
    trap = read(gdb().thread(71, SIGTRAP, info=(SIGTRAP, 1, 0)).thread(72, SIGTRAP, info=STOPPED))
    assert trap["crashed_tid"] is None


def test_without_siginfo_the_one_that_is_in_no_system_call_has_faulted(read):
    waits, runs = {ORIGINAL_RAX: 202}, {ORIGINAL_RAX: OUTSIDE}
    core = gdb().thread(72, SIGSEGV, waits).thread(71, SIGSEGV, runs).thread(73, SIGSEGV, waits)
    assert read(core)["crashed_tid"] == 71
    both = gdb().thread(72, SIGSEGV, runs).thread(71, SIGSEGV, runs)
    assert read(both)["crashed_tid"] == 72


def test_siginfo_of_a_kernel_is_that_of_its_first_thread(read):
    report = read(elf.CoreBuilder().thread(71, SIGBUS, info=(SIGBUS, 2, 0x10)).thread(72, SIGBUS))
    assert report["origin"] == "kernel"
    assert (report["crashed_tid"], report["signal"]["number"]) == (71, SIGBUS)


def test_what_a_tool_wrote_is_not_taken_for_gdb(read):
    no_vector = elf.CoreBuilder(gcore=True).process(71).thread(71, SIGSEGV)  # valgrind
    assert read(no_vector)["origin"] == "tool"
    assert read(no_vector)["crashed_tid"] == 71
    # createdump and minidump-2-core: what was mapped comes before the threads
    rows = [(0x1000, 0x2000, 0, b"/bin/x")]
    early = elf.CoreBuilder(gcore=True).process(71)
    early._process += elf.note(b"CORE\0", elf.NT_FILE, elf.file_note(rows))
    early.thread(70, 0).thread(71, SIGABRT, info=(SIGABRT, SI_TKILL, 71))
    report = read(early)
    assert (report["origin"], report["crashed_tid"]) == ("tool", 71)


def test_valgrind_leaves_the_process_id_out(read):
    assert read(elf.CoreBuilder(gcore=True).process(0).thread(71, SIGSEGV))["pid"] == 71


@pytest.mark.parametrize("system", [b"NetBSD-CORE", b"FreeBSD", b"OpenBSD"])
def test_cores_of_other_systems_are_refused_by_name(tmp_path, system, prose):
    path = tmp_path / "core"
    content = struct.pack("<II", 1, 160) + bytes(152)
    path.write_bytes(elf.CoreBuilder().raw_note(elf.note(system + b"\0", 1, content)).build())
    with pytest.raises(EvidenceError) as refused:
        _native.read_core(str(path))
    prose(refused.value)


def test_a_core_without_any_note_is_none_of_a_process(tmp_path, prose):
    path = tmp_path / "core"
    path.write_bytes(elf.CoreBuilder().segment(0x7000, b"x" * 16).build())
    with pytest.raises(EvidenceError) as refused:
        _native.read_core(str(path))
    prose(refused.value)


@pytest.mark.parametrize(
    ("core", "said"),
    [
        (elf.last_words(b"free(): invalid pointer\n"), "free(): invalid pointer"),
        (elf.last_words(b"free(): invalid pointer\n", hole=True), "free(): invalid pointer"),
        (elf.last_words(b"free(): invalid pointer\n", info=False), "free(): invalid pointer"),
        # a static program has the variable among its own
        (
            elf.last_words(b"free(): invalid pointer\n", path=b"/gone/prog").auxv(
                {elf.AT_PHDR: 0x7F0000000040}
            ),
            "free(): invalid pointer",
        ),
        (elf.last_words(b"free(): invalid pointer"), None),  # glibc ends its lines
        (elf.last_words(b"free(): \x01 pointer\n"), None),
        (elf.last_words(b"free(): invalid pointer\n", size=4000), None),  # no whole pages
        (elf.last_words(b"free(): invalid pointer\n", path=b"/gone/libother.so"), None),
    ],
)
def test_last_words_of_a_c_library_of_unknown_build(read, core, said):
    assert read(core.build(), stacks=False)["abort_message"] == said


@pytest.mark.parametrize(
    ("rbp", "above", "target"),
    [
        (0x6F79206F6C6C6568, b"ere at a", int.from_bytes(b"ere at a", "little")),
        (0x7FFF0000, b"ere at a", int.from_bytes(b"ere at a", "little")),
        (0x6F79206F6C6C6569, b"ere at a", None),  # a pointer that came from elsewhere
        (0x7FFF0000, bytes(8), None),
    ],
)
def test_a_return_to_text_whose_code_is_not_in_the_core(read, rbp, above, target):
    """The registers that a function gives back were taken from right below the return address."""
    rsp, rbp_index, pc = 0x7FFF0010, 4, 0x401000
    core = elf.CoreBuilder().thread(1000, 11, {rbp_index: rbp}, pc=pc, sp=rsp).siginfo(11, 0x80)
    core.segment(pc, b"", elf.PF_R | elf.PF_X, memsz=0x1000)
    core.segment(rsp - 16, b"12345678hello yo" + above, elf.PF_R | elf.PF_W)
    instruction = read(core)["instruction"]
    assert instruction["target"] == target
    assert instruction["transfer"] == ("return" if target else None)


@pytest.mark.parametrize(("link", "transfer"), [(0x6620746F6E207365, "return"), (0x400010, None)])
def test_a_return_to_text_without_siginfo(read, link, transfer):
    """qemu writes no siginfo: what is in x30 is where `ret` goes, and a call has set it."""
    builder = elf.CoreBuilder(machine=183).process()
    builder.thread(1000, 11, {30: link}, pc=0x0020746F6E207365, sp=0x7FFF0000)
    instruction = read(builder)["instruction"]
    assert (instruction["access"], instruction["transfer"]) == ("execute", transfer)
