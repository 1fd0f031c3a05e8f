"""Ctrl-C while a log is read: one line, 130, and no half files."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def interrupted(arguments: list[str], fifo: Path) -> tuple[int, str, str]:
    """Start the command on a pipe that never ends, feed it, and press Ctrl-C while it waits."""
    child = subprocess.Popen(
        [sys.executable, "-m", "postmortem", "strace", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # Opening for writing waits until the command has opened it for reading.
    descriptor = os.open(fifo, os.O_WRONLY)
    try:
        line = b"1 close(3) = 0\n"
        os.write(descriptor, line * 20_000)  # more than a pipe holds: it is reading
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        os.close(descriptor)
    return child.returncode, out, err


@pytest.mark.parametrize("exports", [(), ("--calls", "c.csv"), ("--trace", "t", "--folded", "f")])
def test_one_line_and_nothing_left(exports: tuple[str, ...], tmp_path: Path) -> None:
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    names = [str(tmp_path / word) if not word.startswith("--") else word for word in exports]
    code, out, err = interrupted([str(fifo), *names], fifo)
    assert code == 130
    assert out == ""
    assert (err.count("\n"), err.startswith("postmortem: ")) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
