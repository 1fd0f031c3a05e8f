"""`postmortem run` of commands whose evidence would eat, block or break who explains it."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.commands import execute

_SECONDS = 90
PLANT = """
import os, sys
place = os.environ["POSTMORTEM_RUN"]
def plant(name, make):
    path = os.path.join(place, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    make(path)
def sparse(path):
    with open(path, "wb") as stream:
        stream.truncate(1 << 40)
def write(text):
    def make(path):
        with open(path, "w") as stream:
            stream.write(text)
    return make
"""


def failed(tmp_path: Path, text: str, **env: str) -> tuple[str, Path]:
    """Run a program that fails; what standard error says, and the folder that was left."""
    command = [sys.executable, "-m", "postmortem", "run", "--into", str(tmp_path / "kept"), "--"]
    done = execute(
        [*command, sys.executable, "-c", PLANT + text + '\nraise ValueError("odd batch")\n'],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)} | env,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr.partition("postmortem: ")[2]
    (folder,) = (tmp_path / "kept").iterdir()
    return done.stderr, folder


def manifest(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return document


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("flight/nccl_trace_rank_0", "os.mkfifo"),
        ("nccl/nccl.h.1.log", "os.mkfifo"),
        ("stacks/timeout.json", "os.mkfifo"),
        ("raises/1.json", "os.mkfifo"),
        ("box/1-1.box", "os.mkfifo"),
        ("strace/strace.txt", "os.mkfifo"),
        ("flight/nccl_trace_rank_0", "lambda path: os.symlink('/dev/zero', path)"),
        ("gpu/core.h.1.nvcudmp", "lambda path: os.symlink('/dev/zero', path)"),
        ("flight/nccl_trace_rank_0", "sparse"),
        ("raises/1.json", "sparse"),
        ("nccl/nccl.h.1.log", "sparse"),
    ],
)
def test_files_that_are_no_files_are_left_out(tmp_path: Path, name: str, make: str) -> None:
    said, folder = failed(tmp_path, f"plant({name!r}, {make})")
    assert "ValueError: odd batch" in said
    kept = sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))
    assert kept < 256 << 20


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    _, folder = failed(tmp_path, 'plant("flight/nccl_trace_rank_0", os.mkfifo)')
    told = " ".join(manifest(folder)["problems"])
    assert "nccl_trace_rank_0" in told
    assert "a pipe (FIFO)" in told


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("raises/1.json", "'[' * 200_000"),
        ("raises/1.json", """'{"time": 1.0, "pid": 1, "traceback": "x", "frames": [{}, 3]}'"""),
        ("stacks/failure-1.json", """'{"kind": "hang"}'"""),
        ("flight/nccl_trace_rank_0", "'(' * 500_000 + 't' * 500_000"),
        ("flight/nccl_trace_rank_0", "'{\"entries\": [' + '[' * 100_000"),
        ("nccl/nccl.h.1.log", "'[rank100000000]: x\\\\n' * 9"),
    ],
)
def test_evidence_of_others_that_is_broken_costs_no_explanation(
    tmp_path: Path, name: str, text: str
) -> None:
    said, folder = failed(tmp_path, f"plant({name!r}, write({text}))")
    assert "ValueError: odd batch" in said
    assert manifest(folder)["verdict"]


def test_a_file_that_takes_too_much_memory_is_left_out(tmp_path: Path) -> None:
    text = 'plant("nccl/nccl.h.1.log", write("[rank0]: " + "x" * (60 << 20)))'
    said, folder = failed(tmp_path, text, POSTMORTEM_MEMORY="120M")
    assert "ValueError: odd batch" in said
    assert " 0.1 GB " in said
    assert any("nccl.h.1.log" in row for row in manifest(folder)["problems"])
