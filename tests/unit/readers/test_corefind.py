"""The newest core of a folder, and the core that a process has just left."""

import gzip
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.facts.machine import CorePattern
from postmortem.readers.corefind import FoundCore, core_pid, find_core_of, newest_core
from postmortem.readers.corepattern import container_kind, destination, file_glob, read_core_pattern


def core(pid: int = 1, kind: int = 4, machine: int = 62) -> bytes:
    """A core with one PT_NOTE that has NT_PRPSINFO alone."""
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    info = bytes(24) + struct.pack("<i", pid) + bytes(108)
    note = struct.pack("<III", 5, len(info), 3) + b"CORE\0\0\0\0" + info
    return header + struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, len(note), 0, 4) + note


def put(folder: Path, name: str, data: bytes, age: int = 0) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    when = time.time() - age
    os.utime(path, (when, when))
    return path


def machine(root: Path, pattern: str, uses_pid: str = "0") -> Path:
    """A folder that looks like the / of a machine with this core_pattern."""
    put(root, "proc/sys/kernel/core_pattern", f"{pattern}\n".encode())
    put(root, "proc/sys/kernel/core_uses_pid", f"{uses_pid}\n".encode())
    return root


def test_newest_core_is_taken_and_the_others_counted(tmp_path: Path) -> None:
    put(tmp_path, "core.1", core(), age=50)
    newest = put(tmp_path, "core.2", core(), age=10)
    put(tmp_path, "core.3", core(), age=30)
    put(tmp_path, "train.py", b"import torch\n")
    found = newest_core(tmp_path)
    assert (found.path, found.others, found.skipped) == (newest, 2, ())


def test_a_folder_of_abrt_has_one_folder_for_each_crash(tmp_path: Path) -> None:
    for name, age in (("ccpp-2026-11-20-1", 90), ("ccpp-2026-11-21-2", 10)):
        put(tmp_path, f"{name}/executable", b"/usr/bin/python3.11")
        newest = put(tmp_path, f"{name}/coredump", core(), age=age)
    put(tmp_path, "job/coredump", core(), age=1)  # a sub-folder of somebody else
    assert newest_core(tmp_path) == FoundCore(newest, 1)


def test_a_folder_of_folders_names_what_looks_into_them(tmp_path: Path, prose: Prose) -> None:
    put(tmp_path, "rank0/core.1", core())
    with pytest.raises(EvidenceError) as caught:
        newest_core(tmp_path)
    prose(caught.value)
    assert caught.value.hint is not None
    assert f"core --fold {tmp_path}" in caught.value.hint


def test_equal_times_are_decided_by_name_as_numbers(tmp_path: Path) -> None:
    for name in ("core.9", "core.10", "core"):
        path = put(tmp_path, name, core())
        os.utime(path, (1e9, 1e9))
    assert newest_core(tmp_path).path.name == "core.10"


@pytest.mark.parametrize(
    "name",
    ["core", "core.4711", "core-python-3097667-6", "rank3.core", "CoreDump", "dump", "core.x.py.1"],
)
def test_cores_are_known_by_content_whatever_their_name(tmp_path: Path, name: str) -> None:
    assert newest_core(put(tmp_path, name, core()).parent).path.name == name


def test_packed_core_of_systemd_counts(tmp_path: Path) -> None:
    put(tmp_path, "core.1", core(), age=60)
    name = "core.python.1000.6c1b2b8d0a1f4a0e9a5d7b1e2f3c4d5e.4711.1700000000000000.gz"
    path = put(tmp_path, name, gzip.compress(core()))
    assert newest_core(tmp_path).path == path


def test_packed_core_of_tiny_and_cut_frames_counts(tmp_path: Path) -> None:
    packed = gzip.compress(b"") + gzip.compress(core()[:9]) + gzip.compress(core()[9:] * 50)
    path = put(tmp_path, "core.1.gz", packed[:-9])
    assert newest_core(tmp_path).path == path


def test_names_that_lie_are_skipped_with_the_reason(tmp_path: Path, prose: Prose) -> None:
    old = put(tmp_path, "core.1", core(), age=60)
    put(tmp_path, "core.2", b"")
    put(tmp_path, "core.py", b"import sys\n")
    put(tmp_path, "core.log.gz", gzip.compress(b"text"))
    put(tmp_path, "libfoo.so", core(kind=3))
    os.mkfifo(tmp_path / "core.fifo")
    (tmp_path / "core.dir").mkdir()
    (tmp_path / "core.gone").symlink_to("nowhere")
    found = newest_core(tmp_path)
    assert found.path == old
    assert {path.name for path, _ in found.skipped} == {"core.2", "core.log.gz"}
    prose(dict(found.skipped)[tmp_path / "core.2"])


def test_core_of_another_machine_is_still_the_newest(tmp_path: Path) -> None:
    put(tmp_path, "core.1", core(), age=60)
    foreign = put(tmp_path, "core.2", core(machine=243))
    assert newest_core(tmp_path).path == foreign


def test_no_core_says_what_is_there_and_where_cores_go(tmp_path: Path, prose: Prose) -> None:
    with pytest.raises(EvidenceError) as caught:
        newest_core(tmp_path)
    prose(caught.value)
    assert "cores go to" in (caught.value.hint or "")
    put(tmp_path, "core", b"")
    put(tmp_path, "_usr_bin_python3.1000.crash", b"ProblemType: Crash\n")
    with pytest.raises(EvidenceError, match=r"2 files .*apport") as caught:
        newest_core(tmp_path)
    prose(str(caught.value))
    with pytest.raises(EvidenceError) as refused:
        newest_core(tmp_path / "no")
    prose(refused.value)


@pytest.mark.parametrize(
    ("pattern", "uses_pid", "expected"),
    [
        ("core", False, "/w/core"),
        ("core", True, "/w/core.4711"),
        ("core.%p", True, "/w/core.4711"),
        ("/cores/%h/core.%e.%p.%t", False, "/cores/*/core.python.4711.*"),
        ("core.%P", True, "/w/core.*.4711"),
        ("%e%p%t", False, "/w/python4711*"),
        ("a%%b[%p]", False, "/w/a%b[[]4711]"),
        ("core%", False, "/w/core"),
        ("%E.core", False, "/w/!usr!bin!python.core"),
        ("", True, "/w/.4711"),
    ],
)
def test_file_glob(pattern: str, uses_pid: bool, expected: str) -> None:
    known = {"p": "4711", "e": "python", "E": "/usr/bin/python"}
    assert file_glob(CorePattern(pattern, uses_pid), Path("/w"), known) == expected


@pytest.mark.parametrize(
    ("pattern", "container", "handler", "reachable"),
    [
        ("core", None, "file", True),
        ("/cores/core.%p", "docker", "file", True),
        ("|/lib/systemd/systemd-coredump %P %u", None, "systemd", True),
        ("|/lib/systemd/systemd-coredump %P %u", "docker", "systemd", False),
        ("|/usr/share/apport/apport -p%p -- %E", None, "apport", True),
        ("|/usr/libexec/abrt-hook-ccpp %s", None, "abrt", True),
        ("|/wsl-capture-crash %t %E %p %s", None, "wsl", False),
        ("|/opt/site/corecatcher %p", None, "pipe", False),
        ("|", None, "pipe", False),
        ("|/var/lib/postmortem/core-handler %P", None, "postmortem", True),
        ("|/var/lib/postmortem/core-handler %P", "docker", "postmortem", False),
        ("@@/run/postmortem/core.socket", None, "postmortem", True),
        ("@@/run/coredump.socket", None, "socket", False),
        ("", None, "none", False),
        (None, None, "none", False),
    ],
)
def test_destination(
    pattern: str | None, container: str | None, handler: str, reachable: bool, prose: Prose
) -> None:
    taker = destination(CorePattern(pattern), container=container)
    assert (taker.handler, taker.reachable) == (handler, reachable)
    prose(taker.words)


def test_container_marks(tmp_path: Path) -> None:
    assert container_kind(tmp_path) is None
    put(tmp_path, "proc/1/cgroup", b"0::/kubepods.slice/pod1\n")
    assert container_kind(tmp_path) == "kubernetes"
    put(tmp_path, ".dockerenv", b"")
    assert container_kind(tmp_path) == "docker"


def test_core_pid_of_odd_files(tmp_path: Path) -> None:
    assert core_pid(put(tmp_path, "a", core(4711))) == 4711
    assert core_pid(put(tmp_path, "b", b"text")) is None
    assert core_pid(tmp_path / "none") is None
    whole = core(4711)
    for size in range(len(whole)):
        assert core_pid(put(tmp_path, "c", whole[:size])) in (None, 4711)


def test_systemd_core_of_the_process_is_found(tmp_path: Path) -> None:
    root = machine(tmp_path, "|/usr/lib/systemd/systemd-coredump %P")
    folder = "var/lib/systemd/coredump"
    put(root, f"{folder}/core.python.0.abc.4711.1.zst", b"old", age=500)
    put(root, f"{folder}/core.python.0.abc.4712.3.zst", b"another process")
    put(root, f"{folder}/.#core.python.0.abc.4711.4.zst", b"half written")
    right = put(root, f"{folder}/core.python.0.abc.4711.2.zst", b"right")
    found = find_core_of(4711, started_at=time.time() - 60, cwd=tmp_path, root=root)
    assert found.path == right


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("|/usr/share/apport/apport -p%p", "var/lib/apport/coredump/core._usr_bin_py.0.b.4711.9"),
        ("|/usr/libexec/abrt-hook-ccpp", "var/spool/abrt/ccpp-2026-01-01-4711/coredump"),
        ("|/usr/share/apport/apport -p%p", "work/core"),
    ],
)
def test_other_handlers_cores_are_found(tmp_path: Path, pattern: str, name: str) -> None:
    root = machine(tmp_path, pattern)
    right = put(root, name, core(4711))
    found = find_core_of(4711, started_at=time.time(), cwd=tmp_path / "work", root=root)
    assert found.path == right


def test_handler_without_a_core_says_what_to_do(tmp_path: Path) -> None:
    machine(tmp_path, "|/opt/site/corecatcher %p")
    found = find_core_of(4711, started_at=time.time(), cwd=tmp_path, root=tmp_path)
    assert found.path is None
    assert "/opt/site/corecatcher" in (found.why or "")
    assert "core_pattern=" in (found.hint or "")


def test_file_of_another_process_or_an_older_run_is_not_taken(tmp_path: Path) -> None:
    root = machine(tmp_path / "root", "core")
    path = put(tmp_path, "core", core(4712))
    assert find_core_of(4711, started_at=time.time(), cwd=tmp_path, root=root).path is None
    path.write_bytes(core(4711))
    assert find_core_of(4711, started_at=time.time(), cwd=tmp_path, root=root).path == path
    os.utime(path, (1e9, 1e9))
    assert find_core_of(4711, started_at=time.time(), cwd=tmp_path, root=root).path is None


def test_name_changed_by_the_program_is_still_found(tmp_path: Path) -> None:
    root = machine(tmp_path / "root", "core.%e.%s", "1")
    path = put(tmp_path, "core.pt_main_thread.6.4711", core(4711))
    found = find_core_of(4711, started_at=0, cwd=tmp_path, command="python", root=root)
    assert found.path == path


@pytest.mark.cores
def test_real_crash_here(tmp_path: Path) -> None:
    taker = destination(read_core_pattern(), container=container_kind())
    if not taker.reachable:
        pytest.skip(f"cores go to {taker.words}")
    started = time.time()
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        child = subprocess.Popen([sys.executable, "-c", "import os; os.abort()"], cwd=tmp_path)
        assert child.wait(60) == -signal.SIGABRT
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    found = find_core_of(child.pid, started_at=started, cwd=tmp_path)
    assert found.path is not None, found.why
    assert core_pid(found.path) == child.pid
    if found.path.parent == tmp_path:
        assert newest_core(tmp_path).path == found.path
