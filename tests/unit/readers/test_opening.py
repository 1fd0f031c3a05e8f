"""Plain and packed cores, whole, cut and damaged, and what is not a core."""

import bz2
import gzip
import lzma
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import lz4.block
import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.processes import speaking
from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.readers.opening import open_core

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

KIB = 1 << 10
ZEROS = 256 << 20
SKIPPABLE = struct.pack("<II", 0x184D2A53, 5) + b"hello"


def elf(kind: int = 4, machine: int = 62, *, bits: int = 64, order: str = "<") -> bytes:
    """An ELF header of the given type, without program headers."""
    ident = b"\x7fELF" + bytes([1 if bits == 32 else 2, 1 if order == "<" else 2, 1]) + bytes(9)
    rest = struct.pack(order + "HHI", kind, machine, 1)
    return (ident + rest).ljust(64, b"\0")


def core_bytes() -> bytes:
    """Looks like a core to the opener: its header, then noise, zeros and noise at odd sizes."""
    noise = bytes((i * i * 31 + i) >> 3 & 0xFF for i in range(70_001))
    return elf() + noise + bytes(300_000) + noise + bytes(4095) + b"end"


def legacy_lz4(data: bytes) -> bytes:
    out = struct.pack("<I", 0x184C2102)
    for at in range(0, len(data), 8 << 20):
        block = lz4.block.compress(data[at : at + (8 << 20)], store_size=False)
        out += struct.pack("<I", len(block)) + block
    return out


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "zstd": ("zstd", zstd.compress),
    "lz4": ("lz4", lz4.frame.compress),
    "lz4-legacy": ("lz4", legacy_lz4),
    "gzip": ("gzip", gzip.compress),
    "xz": ("xz", partial(lzma.compress, preset=0)),  # one format, a third of the time
    "bzip2": ("bzip2", bz2.compress),
}


def pack(tmp_path: Path, data: bytes, name: str = "evidence") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def refusal(path: Path) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught, open_core(path):
        pass
    return caught.value


def test_plain_core_is_passed_through(tmp_path: Path) -> None:
    path = pack(tmp_path, core_bytes(), "core.4711")
    with open_core(path) as opened:
        assert opened.path == path
        assert opened.source.compression is None
        assert opened.source.size_bytes == len(core_bytes())
        assert opened.problems == ()
    assert path.exists()


@pytest.mark.parametrize("name", PACKERS)
def test_packed_core_is_unpacked_whatever_its_name(tmp_path: Path, name: str) -> None:
    compression, packer = PACKERS[name]
    path = pack(tmp_path, packer(core_bytes()))
    with open_core(path) as opened:
        assert opened.path.read_bytes() == core_bytes()
        assert opened.path.stat().st_mode & 0o077 == 0
        assert opened.path.parent.stat().st_mode & 0o077 == 0
        assert opened.source.compression == compression
        assert opened.source.size_bytes == path.stat().st_size
        assert not opened.source.truncated
        copy = opened.path
    assert not copy.exists()
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", PACKERS)
def test_frames_joined_end_to_end(tmp_path: Path, name: str) -> None:
    _, packer = PACKERS[name]
    data = core_bytes()
    parts = [packer(data[:50_000]), packer(b""), packer(data[50_000:50_001]), packer(data[50_001:])]
    with open_core(pack(tmp_path, b"".join(parts))) as opened:
        assert opened.path.read_bytes() == data
        assert opened.problems == ()


@pytest.mark.parametrize("name", ["zstd", "lz4"])
def test_skippable_frames_before_between_and_behind(tmp_path: Path, name: str) -> None:
    _, packer = PACKERS[name]
    data = core_bytes()
    parts = [SKIPPABLE, SKIPPABLE, packer(data[:9]), SKIPPABLE, packer(data[9:]), SKIPPABLE]
    with open_core(pack(tmp_path, b"".join(parts))) as opened:
        assert opened.path.read_bytes() == data
        assert opened.problems == ()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(PACKERS)),
    st.lists(st.tuples(st.booleans(), st.integers(1, 9000)), max_size=12),
    st.lists(st.integers(0, 60_000), max_size=4),
)
def test_any_mix_of_zeros_and_frames_comes_out_equal(
    name: str, runs: list[tuple[bool, int]], cuts: list[int]
) -> None:
    data = elf() + b"".join(bytes(size) if zero else b"\xa5" * size for zero, size in runs)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    packed = b"".join(PACKERS[name][1](data[a:b]) for a, b in pairwise(edges))
    with tempfile.TemporaryDirectory() as folder, open_core(pack(Path(folder), packed)) as opened:
        assert opened.path.read_bytes() == data
        assert opened.problems == ()


def test_zero_padding_of_xz_and_gzip_is_no_problem(tmp_path: Path) -> None:
    for packer in (lzma.compress, gzip.compress):
        half = len(core_bytes()) // 2
        data = packer(core_bytes()[:half]) + bytes(8) + packer(core_bytes()[half:]) + bytes(512)
        with open_core(pack(tmp_path, data)) as opened:
            assert opened.path.read_bytes() == core_bytes()
            assert opened.problems == ()


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs the zstd program")
def test_long_window_of_zstd(tmp_path: Path) -> None:
    path = pack(tmp_path, core_bytes(), "core")
    packed = tmp_path / "long.zst"
    # from a pipe, so that the size is not known and the whole window of 2 GiB is asked for
    with path.open("rb") as source, packed.open("wb") as target:
        command = ["zstd", "--ultra", "--long=31", "-c"]
        subprocess.run(command, stdin=source, stdout=target, check=True)
    with open_core(packed) as opened:
        assert opened.path.read_bytes() == core_bytes()


@pytest.mark.parametrize("name", PACKERS)
def test_cut_stream_keeps_what_came_out(tmp_path: Path, name: str) -> None:
    _, packer = PACKERS[name]
    data = elf() + os.urandom(2 << 20)
    packed = packer(data[: 1 << 19]) + packer(data[1 << 19 :])
    kept_something = 0
    for share in (0.02, 0.3, 0.5, 0.77, 0.999):
        cut = packed[: int(len(packed) * share)]
        path = pack(tmp_path, cut)
        try:
            with open_core(path) as opened:
                got = opened.path.read_bytes()
                assert data.startswith(got)
                assert opened.source.truncated
                (problem,) = opened.problems
                assert "early" in problem.what
                assert f"{len(got):,} bytes" in problem.what
                kept_something += 1
        except EvidenceError as error:
            assert "end early" in str(error)  # noqa: PT017  # both ends are right, per codec
    assert kept_something >= 2
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", PACKERS)
def test_every_cut_near_the_ends_gives_an_answer(tmp_path: Path, name: str) -> None:
    _, packer = PACKERS[name]
    packed = packer(core_bytes())
    for size in [*range(12), *range(len(packed) - 12, len(packed))]:
        path = pack(tmp_path, packed[:size])
        try:
            with open_core(path) as opened:
                assert opened.source.truncated
                assert core_bytes().startswith(opened.path.read_bytes())
        except EvidenceError as error:
            assert str(path) in str(error)  # noqa: PT017


@pytest.mark.parametrize("name", ["zstd", "lz4", "gzip", "xz", "bzip2"])
def test_damaged_stream_keeps_what_came_before(tmp_path: Path, name: str) -> None:
    _, packer = PACKERS[name]
    first, second = elf() + os.urandom(2 << 20), os.urandom(1 << 16)
    damaged = bytearray(packer(second))
    damaged[4:400] = bytes(396)
    with open_core(pack(tmp_path, packer(first) + damaged)) as opened:
        assert opened.path.read_bytes()[: len(first)] == first
        assert opened.source.truncated
        assert "damaged" in opened.problems[0].what or "something else" in opened.problems[0].what


def test_garbage_behind_the_stream_is_reported(tmp_path: Path) -> None:
    with open_core(pack(tmp_path, gzip.compress(core_bytes()) + b"uploaded by ci")) as opened:
        assert opened.path.read_bytes() == core_bytes()
        assert "something else" in opened.problems[0].what


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs the zstd program")
def test_many_zeros_stay_sparse_and_small(tmp_path: Path) -> None:
    plain, packed = tmp_path / "core", tmp_path / "core.zst"
    with plain.open("wb") as file:
        file.write(elf())
        file.truncate(ZEROS)
        file.seek(0, os.SEEK_END)
        file.write(b"tail")
    subprocess.run(["zstd", "-q", plain, "-o", packed], check=True)
    program = (
        "import sys; from pathlib import Path\n"
        "from postmortem.readers.opening import open_core\n"
        "with open_core(Path(sys.argv[1])) as o:\n"
        "    s = o.path.stat()\n"
        "    print(s.st_size, s.st_blocks * 512, o.path.open('rb').seek(0, 3))\n"
        "print(next(x.split()[1] for x in open('/proc/self/status') if x.startswith('VmHWM')))\n"
    )
    command = [sys.executable, "-c", program, str(packed)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    size, stored, peak_kib = int(answer[0]), int(answer[1]), int(answer[3])
    assert size == ZEROS + 4
    assert stored <= 64 * KIB
    assert peak_kib < 100 * KIB < ZEROS // KIB


def test_full_disk_is_a_clear_message(tmp_path: Path) -> None:
    path = pack(tmp_path, gzip.compress(elf() + os.urandom(3 << 20)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        error = refusal(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "stopped after" in str(error)
    assert "--temp-dir" in (error.hint or "")
    assert sorted(tmp_path.iterdir()) == [path]


def test_temp_dir_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack(tmp_path, gzip.compress(core_bytes()))
    given, env = tmp_path / "given", tmp_path / "env"
    given.mkdir()
    env.mkdir()
    monkeypatch.delenv("TMPDIR", raising=False)
    with open_core(path) as opened:
        assert opened.path.parent.parent == tmp_path
    monkeypatch.setenv("TMPDIR", str(env))
    with open_core(path) as opened:
        assert opened.path.parent.parent == env
    with open_core(path, temp_dir=given) as opened:
        assert opened.path.parent.parent == given
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with open_core(path) as opened:
        assert opened.path.parent.parent == tmp_path
    with (
        pytest.raises(EvidenceError, match=r"nowhere: No such file"),
        open_core(path, temp_dir=tmp_path / "nowhere"),
    ):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_copy_is_removed_when_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    path = pack(tmp_path, gzip.compress(core_bytes()))
    program = (
        "import sys, signal; from pathlib import Path\n"
        "from postmortem.readers.opening import open_core\n"
        "with open_core(Path(sys.argv[1])) as o:\n"
        "    print(o.path, flush=True)\n"
        "    signal.pause()\n"
    )
    with speaking(sys.executable, "-c", program, path) as (child, said):
        copy = Path(said.readline().strip())
        assert copy.exists()
        child.send_signal(number)
        child.wait(30)
    assert sorted(tmp_path.iterdir()) == [path]


def test_signal_handlers_are_put_back(tmp_path: Path) -> None:
    with open_core(pack(tmp_path, gzip.compress(core_bytes()))):
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


FOREIGN = {
    "empty": b"",
    "executable": elf(2),
    "library": elf(3),
    "object": elf(1),
    "cut-40": elf()[:40],
    "cut-9": elf()[:9],
    "i386": elf(4, 3, bits=32),
    "s390x": elf(4, 22, order=">"),
    "risc-v": elf(4, 243),
    "cuda": elf(4, 190),
    "amd": elf(4, 224),
    "vmcore": elf() + b"VMCOREINFO\0",
    "qemu": elf() + b"\0\0\0\0QEMU\0\0\0\0\1\0\0\0",
    "xen": elf() + b"\4\0\0\0\0\0\0\0\0\0\0\2Xen\0",
    "virtualbox": elf() + b"\7\0\0\0\0\2\0\0\0\x0b\0\0VBCORE\0\0",
    "kdump": b"KDUMP   " + bytes(90),
    "diskdump": b"DISKDUMP" + bytes(90),
    "lime": b"EMiL\1\0\0\0" + bytes(90),
    "wasm": b"\0asm\1\0\0\0\0\x08\x04core",
    "android": b"*** " * 15 + b"***\nBuild fingerprint: 'x'\n",
    "hs_err": b"#\n# A fatal error has been detected by the Java Runtime Environment:\n",
    "hprof": b"JAVA PROFILE 1.0.2\0",
    "cpio": b"070701" + b"0" * 104,
    "minidump": b"MDMP" + bytes(90),
    "windows-kernel": b"PAGEDU64" + bytes(90),
    "windows": b"MZ" + bytes(90),
    "macos-core": struct.pack("<IIII", 0xFEEDFACF, 0, 0, 4),
    "macos": struct.pack("<IIII", 0xFEEDFACF, 0, 0, 2),
    "lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "apport": b"ProblemType: Crash\nArchitecture: amd64\n",
    "zip": b"PK\x03\x04" + bytes(90),
    "tar": b"core\0".ljust(257, b"\0") + b"ustar\0",
    "python-shebang": b"#!/usr/bin/env python3\nprint()\n",
    "shell": b"#!/bin/sh\n",
    "python": b"import torch\n",
    "text": "Erfolg für alle\n".encode(),
    "zeros": bytes(70_000),
    "7z": b"7z\xbc\xaf\x27\x1c" + bytes(40),
    "compress": b"\x1f\x9d\x90" + bytes(40),
    "unknown": b"\x01\x02\x00\xff" * 30,
    "gzip-empty": gzip.compress(b""),
    "gzip-text": gzip.compress(b"just a log\n"),
    "zstd-library": zstd.compress(elf(3)),
    "xz-in-gzip": gzip.compress(lzma.compress(core_bytes())),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_not_a_core_is_named(tmp_path: Path, name: str, prose: Prose) -> None:
    error = refusal(pack(tmp_path, FOREIGN[name]))
    assert error.where == str(tmp_path / "evidence")
    prose(error, error.hint)


def test_real_executable_and_library(prose: Prose) -> None:
    import _ctypes

    for path in (Path(sys.executable).resolve(), Path(_ctypes.__file__)):
        prose(str(refusal(path)).removeprefix(str(path)).partition(" (")[0])


def test_things_that_are_no_files(tmp_path: Path, prose: Prose) -> None:
    fifo, sock, link = tmp_path / "fifo", tmp_path / "sock", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to("gone")
    prose(refusal(fifo))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(sock))
        prose(refusal(sock))
    prose(refusal(Path("/dev/zero")), refusal(tmp_path), refusal(link), refusal(tmp_path / "core"))
    prose(refusal(tmp_path / "no" / "core").hint or "")


def test_no_permission(tmp_path: Path) -> None:
    path = pack(tmp_path, core_bytes())
    path.chmod(0)
    if os.geteuid() != 0:
        assert "no permission" in str(refusal(path))
        return
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        error = refusal(path)
    finally:
        os.seteuid(0)
    assert "no permission" in str(error)
