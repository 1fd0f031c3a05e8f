"""What the native reader finds in good cores: made by hand, by the kernel and by gdb."""

import os
import re
import resource
import shutil
import sys
import threading
from pathlib import Path

import pytest

from builders import elf
from builders.commands import crash_in, execute
from postmortem import _native
from postmortem.errors import EvidenceError

SIGSEGV, SEGV_MAPERR, SI_KERNEL, SI_TKILL = 11, 1, 0x80, -6


def plain() -> elf.CoreBuilder:
    """Return a core of two threads."""
    return elf.CoreBuilder().thread(71, SIGSEGV, pc=0x1234, sp=0x7000).thread(72).process(71)


def test_threads_and_registers(damage, read):
    report = read(plain().segment(0x7000, b"x" * 16))
    assert [t["tid"] for t in report["threads"]] == [71, 72]
    assert report["threads"][0]["signal"] == SIGSEGV
    registers = dict(zip(report["register_names"], report["threads"][0]["registers"], strict=True))
    assert (registers["rip"], registers["rsp"]) == (0x1234, 0x7000)
    assert damage(report) == []
    assert report["size_bytes"] == report["expected_bytes"]


def test_aarch64(read):
    report = read(elf.CoreBuilder(machine=elf.EM_AARCH64).thread(5, 11, pc=0x40, sp=0x80))
    registers = dict(zip(report["register_names"], report["threads"][0]["registers"], strict=True))
    assert report["machine"] == "aarch64"
    assert (registers["pc"], registers["sp"]) == (0x40, 0x80)


@pytest.mark.parametrize(
    ("code", "how", "address", "sender"),
    [
        (SEGV_MAPERR, {"address": 0x10}, 0x10, None),
        (SEGV_MAPERR, {"address": 0}, 0, None),  # null is an address
        (SI_KERNEL, {"address": 0xDEAD}, None, None),  # non-canonical: the kernel knows none
        (0, {"pid": 4711, "uid": 1000}, None, 4711),
        (SI_TKILL, {"pid": 71, "uid": 0}, None, 71),
        (-2, {"pid": 99}, None, None),  # a timer: the same bytes mean something else
    ],
)
def test_signal_codes(read, code, how, address, sender):
    row = read(plain().siginfo(SIGSEGV, code, **how))["signal"]
    assert (row["number"], row["code"]) == (SIGSEGV, code)
    assert (row["address"], row["sender_pid"]) == (address, sender)


def test_snapshot_by_gcore(read):
    core = elf.CoreBuilder(gcore=True).process().thread(1, 19).thread(2)
    report = read(core.siginfo(19, SI_KERNEL))
    assert report["origin"] == "gcore"
    assert [t["tid"] for t in report["threads"]] == [1, 2]
    assert report["signal"]["number"] == 19


def test_crash_saved_by_gcore_keeps_its_address(read):
    core = elf.CoreBuilder(gcore=True).process().thread(1, SIGSEGV).thread(2)
    report = read(core.siginfo(SIGSEGV, SEGV_MAPERR, address=0x20))
    assert (report["origin"], report["signal"]["address"]) == ("gcore", 0x20)


@pytest.mark.parametrize("drop_section", [False, True])
def test_seventy_thousand_segments(damage, read, drop_section):
    core = elf.CoreBuilder(drop_section=drop_section).thread(1, SIGSEGV)
    for i in range(70_000):
        core.segment(0x10000 + i * 0x2000, memsz=0x1000)
    data = core.build()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    before = usage.ru_utime + usage.ru_stime
    report = read(data)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    assert usage.ru_utime + usage.ru_stime - before < 0.1
    assert len(report["threads"]) == 1
    assert damage(report) == []


def test_hundred_thousand_threads(read):
    core = elf.CoreBuilder()
    one = elf.CoreBuilder().thread(0).notes()
    core.raw_note(
        b"".join(one[:52] + (i + 1).to_bytes(4, "little") + one[56:] for i in range(100_000))
    )
    report = read(core)
    assert len(report["threads"]) == 100_000
    assert report["threads"][-1]["tid"] == 100_000


def test_two_threads_read_at_once(tmp_path):
    paths = []
    for tid in (1, 2):
        path = tmp_path / f"core{tid}"
        path.write_bytes(elf.CoreBuilder().thread(tid, SIGSEGV).segment(0, bytes(4096)).build())
        paths.append(str(path))
    wrong: list[object] = []
    start = threading.Barrier(2)

    def work(tid: int) -> None:
        start.wait()
        for _ in range(300):
            found = [t["tid"] for t in _native.read_core(paths[tid - 1])["threads"]]
            if found != [tid]:
                wrong.append(found)

    workers = [threading.Thread(target=work, args=(tid,)) for tid in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


@pytest.fixture(scope="module")
def real_core(tmp_path_factory) -> Path:
    """Return the core of a Python process that aborted with three threads."""
    folder = tmp_path_factory.mktemp("real")
    code = (
        "import os,threading,time\n"
        "for _ in range(2): threading.Thread(target=time.sleep,args=(60,),daemon=True).start()\n"
        "os.abort()"
    )
    return crash_in(folder, [sys.executable, "-c", code])


@pytest.mark.cores
def test_real_core_agrees_with_elfutils(real_core):
    if not shutil.which("eu-readelf") or not shutil.which("eu-unstrip"):
        pytest.skip("elfutils is not installed")
    report = _native.read_core(str(real_core))
    notes = execute(["eu-readelf", "-n", real_core], check=True).stdout
    # Thread states follow the line PRSTATUS, the process comes with PRPSINFO.
    states = re.findall(r"PRSTATUS\n.*?\bpid: (\d+)", notes, re.S)
    assert [str(t["tid"]) for t in report["threads"]] == states
    assert len(states) == 3
    listing = execute(["eu-unstrip", "-n", f"--core={real_core}"], check=True).stdout
    theirs = set(re.findall(r"^0x[0-9a-f]+\+0x[0-9a-f]+ ([0-9a-f]{16,})@\S+ /", listing, re.M))
    ours = {m["build_id"] for m in report["modules"] if m["build_id"]}
    assert theirs
    assert theirs <= ours
    mapped = set(re.findall(r"^\s+[0-9a-f]+-[0-9a-f]+ [0-9a-f]+ \d+\s+(/.*)$", notes, re.M))
    assert {m["path"] for m in report["modules"]} <= mapped


@pytest.mark.cores
def test_real_core_cut_anywhere(damage, real_core, tmp_path):
    data = real_core.read_bytes()
    path = tmp_path / "cut"
    whole = len(_native.read_core(str(real_core))["threads"])
    # Fine steps through headers and notes, coarse ones through memory.
    at = [*range(64, 60_000, 501), *range(60_000, len(data), max(1, len(data) // 40))]
    path.write_bytes(data)
    for size in sorted(at, reverse=True):
        os.truncate(path, size)
        try:
            report = _native.read_core(str(path))
        except EvidenceError:
            continue
        assert damage(report), f"nothing said of a core cut at {size} of {len(data)}"
        assert len(report["threads"]) <= whole
