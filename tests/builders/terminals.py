"""Programs of a test on a terminal, and jobs in the background; nothing of them stays."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

SECONDS = 100.0
"""How long anything may take before the test fails."""


class Terminal:
    """A program on a pseudoterminal, typed at by the test."""

    def __init__(self, argv: list[str], env: Mapping[str, str], size: tuple[int, int]) -> None:
        self.seen = ""
        self._near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.modes = termios.tcgetattr(far)
        self._far = far
        self.process = subprocess.Popen(
            argv,
            stdin=far,
            stdout=far,
            stderr=far,
            env=dict(env),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def type(self, text: str) -> None:
        os.write(self._near, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._near, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: str) -> str:
        """Wait for a text; return all up to its end, and forget that."""
        end = time.monotonic() + SECONDS
        while text not in self.seen:
            if time.monotonic() > end:
                pytest.fail(f"waited {SECONDS} s for {text!r}; seen: {self.seen[-3000:]!r}")
            if not self._read(0.2) and self.process.poll() is not None and text not in self.seen:
                pytest.fail(f"ended before {text!r}; seen: {self.seen[-3000:]!r}")
        before, found, self.seen = self.seen.partition(text)
        return before + found

    def rest(self) -> str:
        """Return what comes until the program ends."""
        end = time.monotonic() + SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            self._read(0.1)
        while self._read(0.1):
            pass
        if self.process.poll() is None:
            pytest.fail(f"did not end within {SECONDS} s; seen: {self.seen[-3000:]!r}")
        return self.seen

    def modes_now(self) -> list[object]:
        return termios.tcgetattr(self._far)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._near], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._near, 1 << 16)
        except OSError:
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._near)
        os.close(self._far)


def in_background(
    argv: list[str], env: Mapping[str, str], output: Path
) -> "subprocess.Popen[bytes]":
    with output.open("wb") as file:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,
        )


class Job:
    """A job in the background, its output in a file; `begin` is `in_background` or `Forked`."""

    def __init__(
        self, argv: list[str], env: Mapping[str, str], output: Path, begin: Any = in_background
    ) -> None:
        self._output = output
        self.process = begin(argv, env, output)

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def until(self, text: str, times: int = 1) -> None:
        end = time.monotonic() + SECONDS
        while self.output.count(text) < times:
            if time.monotonic() > end:
                pytest.fail(f"waited {SECONDS} s for {text!r}: {self.output[-4000:]}")
            time.sleep(0.05)

    def pid_of(self, rank: int) -> int:
        self.until("began", 1)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if found := re.search(rf":{rank}\] began (\d+)", self.output):
                return int(found[1])
            time.sleep(0.05)
        pytest.fail(self.output)

    def ends(self) -> int:
        try:
            return self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the job did not end: {self.output[-4000:]}")

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def job_runs(shell: int) -> None:
    """Wait until a job of a shell has its terminal, and is not stopped: the name comes before."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        _, _, group, _, _, front = _stat(shell)[:6]
        if front != group and _stat(int(front))[0] != "T":
            return
        time.sleep(0.01)
    pytest.fail("no job of the shell has its terminal")


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


def all_wait_for_one(job: Job, near: Terminal) -> None:
    """Check that none of three ranks goes on while rank 0 stands in its breakpoint."""
    near.until("(rank 0) ")
    time.sleep(1)
    assert "result" not in job.output
    near.type("c\r")
    near.rest()
    assert job.ends() == 0
    assert job.output.count("result 42") == 3
