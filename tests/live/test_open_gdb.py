"""`core --open-gdb`: gdb's prompt on the frame that the report blames."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from live.conftest import Crash
from postmortem.cli.open_gdb import blamed
from postmortem.errors import DebuggerError
from postmortem.readers.gdb.find import find_gdb

CRASH = "import ctypes\ndef decode_row(): ctypes.string_at(0)\ndecode_row()\n"


def open_gdb(core: Path, typed: str = "quit\n") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "postmortem", "core", str(core), "--open-gdb"]
    return subprocess.run(
        words, input=typed, capture_output=True, text=True, timeout=300, check=False
    )


def test_gdb_stands_on_the_blamed_frame(crash: Crash, tmp_path: Path) -> None:
    try:
        find_gdb()
    except DebuggerError as error:
        pytest.skip(str(error))
    core = crash([sys.executable, "-c", CRASH]).core
    done = open_gdb(core, "echo here:\nframe\nquit\n")
    assert done.returncode == 0, done.stderr
    assert "SIGSEGV" in done.stderr
    frame = done.stdout.partition("here:")[2].splitlines()[0]
    name = frame.partition(" in ")[2].split()[0]
    assert name in done.stderr
    assert name not in ("__strlen_evex", "__strlen_avx2")
    assert not frame.startswith("#0")  # strlen only does what its caller asks for

    packed = tmp_path / "core.gz"
    packed.write_bytes(gzip.compress(core.read_bytes()[:100_000], 1))
    refused = open_gdb(packed)
    assert refused.returncode == 3
    assert "is packed" in refused.stderr


def test_nothing_to_open(tmp_path: Path) -> None:
    assert open_gdb(tmp_path / "none").returncode == 3
    (tmp_path / "text").write_text("hello\n")
    assert open_gdb(tmp_path / "text").returncode == 3


def test_without_a_stack_nobody_is_blamed() -> None:
    report = {"crashed_thread": 1, "threads": [], "diagnoses": []}
    assert blamed(report) is None
