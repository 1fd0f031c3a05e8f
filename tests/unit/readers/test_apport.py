"""Crash reports of apport: the core inside of one is opened as any other."""

import base64
import os
import zlib
from pathlib import Path

import pytest

from builders.elf import CoreBuilder
from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.readers.corefind import newest_core
from postmortem.readers.opening import open_core

HEAD = (
    "ProblemType: Crash\nArchitecture: amd64\nExecutablePath: /usr/bin/python3.11\n"
    "ProcMaps:\n 5555-6666 r-xp\n 777-888 rw-p\n"
)


def lines_of(core: bytes, step: int = 4000) -> list[str]:
    """Encode as problem_report.py does: a gzip header, then pieces of one deflate stream."""
    lines = [base64.b64encode(b"\037\213\010\000\000\000\000\000\002\377").decode()]
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, 0)
    pieces = [packer.compress(core[at : at + step]) for at in range(0, len(core), step)]
    lines += [base64.b64encode(piece).decode() for piece in pieces if piece]
    end = zlib.crc32(core).to_bytes(4, "little") + len(core).to_bytes(4, "little")
    lines.append(base64.b64encode(packer.flush() + end).decode())
    return lines


def report(path: Path, core: bytes, *, tail: str = "UserGroups: adm\n") -> Path:
    path.write_text(HEAD + "\n ".join(["CoreDump: base64", *lines_of(core)]) + "\n" + tail)
    return path


@pytest.fixture
def core() -> bytes:
    return CoreBuilder().build() + os.urandom(50_000)


@pytest.mark.parametrize("tail", ["UserGroups: adm\n", ""])
def test_core_comes_out_whole(tmp_path: Path, core: bytes, tail: str) -> None:
    path = report(tmp_path / "_usr_bin_python3.11.1000.crash", core, tail=tail)
    with open_core(path) as opened:
        assert opened.path.read_bytes() == core
        assert opened.source.path == str(path)
        assert not opened.problems
    assert newest_core(tmp_path).path == path


def test_cut_report_gives_what_is_there(tmp_path: Path, core: bytes) -> None:
    path = report(tmp_path / "cut.crash", core)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with open_core(path) as opened:
        there = opened.path.read_bytes()
        assert core.startswith(there)
        assert len(there) > 10_000
        assert opened.problems


@pytest.mark.parametrize("body", ["", "CoreDump: base64\n", "CoreDump: base64\n ????\n"])
def test_report_without_a_core(tmp_path: Path, body: str) -> None:
    path = tmp_path / "none.crash"
    path.write_text(HEAD + body)
    with pytest.raises(EvidenceError), open_core(path):
        pass


def test_report_that_lost_its_core_says_so(tmp_path: Path, prose: Prose) -> None:
    path = tmp_path / "none.crash"
    path.write_text(HEAD)
    with pytest.raises(EvidenceError) as refused, open_core(path):
        pass
    prose(refused.value)
