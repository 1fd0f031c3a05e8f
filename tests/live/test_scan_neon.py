"""The NEON kernels, built by a cross compiler and run under user-mode emulation, against the plain
count of csrc/fuzz/fuzz_scan.cpp."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
CSRC = Path(__file__).resolve().parents[2] / "csrc"
SOURCES = ("bytewise", "kernel_baseline", "layout", "levels", "pass", "pool", "scan", "values")
FORMATS = 17  # those that fuzz_scan takes from the first byte

pytestmark = pytest.mark.skipif(
    shutil.which(COMPILER) is None or shutil.which(EMULATOR) is None,
    reason=f"{COMPILER} or {EMULATOR} is not installed",
)


def values(random_: random.Random, size: int) -> bytes:
    """Bytes of an array: anything, or ordinary numbers with zeros among them or a few odd ones."""
    data = bytearray(b"\x3f" * size)
    match random_.randrange(3):
        case 0:
            data = bytearray(random_.randbytes(size))
        case 1:
            for i in range(0, size - 8, 8):
                data[i : i + 8] = bytes(8) if random_.random() < 0.5 else data[i : i + 8]
        case 2:
            for _ in range(random_.randrange(4)):
                data[random_.randrange(size)] = random_.choice((0, 0x7F, 0xFF, 0x80, 1))
    return bytes(data)


def test_neon_counts_like_the_plain_reference(tmp_path: Path) -> None:
    program = tmp_path / "fuzz_scan"
    sources = [CSRC / "scan" / f"{name}.cpp" for name in SOURCES]
    sources += [CSRC / "fuzz" / "fuzz_scan.cpp", CSRC / "fuzz" / "replay_main.cpp"]
    options = ["-std=c++20", "-O2", "-Wno-psabi", "-static", f"-I{CSRC}", "-pthread"]
    subprocess.run([COMPILER, *options, *map(str, sources), "-o", str(program)], check=True)
    random_ = random.Random(5)
    files = []
    for number in range(400):
        layout = bytes([number % FORMATS]) + random_.randbytes(7)
        file = tmp_path / f"input-{number}"
        file.write_bytes(layout + values(random_, random_.choice((9, 300, 3000, 20000))))
        files.append(str(file))
    run = subprocess.run([EMULATOR, str(program), *files], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "400 files replayed" in run.stdout + run.stderr
