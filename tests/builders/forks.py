"""Programs that need PyTorch, run side by side from one process that has imported it."""

import atexit
import contextlib
import functools
import importlib.util
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import pytest

import postmortem

_PROGRAM = Path(__file__).parents[1] / "programs" / "forks.py"
_SECONDS = 110


def run_together(
    calls: Sequence[tuple[Sequence[object], Mapping[str, str]]],
    folder: Path,
    *,
    seconds: float = _SECONDS,
) -> list[int]:
    """Return the exit statuses of Python programs, each an argv and variables of its own.

    They run in `folder`, with one thread each; none outlives this call.
    """
    server, said = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    words = [[[str(word) for word in argv], dict(env)] for argv, env in calls]
    server.stdin.write(json.dumps([str(folder), words]) + "\n")
    server.stdin.flush()
    with selectors.DefaultSelector() as selector:
        selector.register(server.stdout, selectors.EVENT_READ)
        answer = server.stdout.readline() if selector.select(seconds) else ""
    if not answer:
        _end(server)
        _server.cache_clear()
        said.seek(0)
        raise AssertionError(f"no answer within {seconds} s: {said.read()[-4000:]}")
    statuses: list[int] = json.loads(answer)
    return statuses


def needs_torch() -> None:
    """Skip the test where there is no PyTorch, without importing it here: that takes 2 s."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")


class Forked:
    """``python -m MODULE WORD...`` from the process that has PyTorch, as `subprocess.Popen`."""

    def __init__(self, argv: Sequence[object], env: Mapping[str, str], output: Path) -> None:
        told = output.with_suffix(".told")
        os.mkfifo(told)
        # Opened for both: nobody has it for writing yet, and that would be read as its end.
        # Without a buffer: what stands in one is nothing that `select` sees.
        self._told = os.fdopen(os.open(told, os.O_RDWR), "r+b", buffering=0)
        self.returncode: int | None = None
        output.touch()
        server, _ = _server()
        assert server.stdin is not None
        words = [str(word) for word in argv]
        asked = {"argv": words, "variables": dict(env), "output": str(output), "told": str(told)}
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        self.pid = self._number(_SECONDS)

    def _number(self, seconds: float) -> int:
        if not select.select([self._told], [], [], seconds)[0]:
            raise subprocess.TimeoutExpired("a job with PyTorch", seconds)
        return int(self._told.readline())

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float = _SECONDS) -> int:
        if self.returncode is None:
            self.returncode = self._number(timeout)
            self._told.close()
        return self.returncode


@functools.cache
def _server() -> tuple[subprocess.Popen[str], IO[str]]:
    """The process that forks, until this one ends, and what it and its children complain of."""
    said = tempfile.TemporaryFile("w+")  # noqa: SIM115  as long-lived as the process
    environment = os.environ | {
        "PYTHONPATH": str(Path(postmortem.__file__).parents[1]),
        "PYTHONFAULTHANDLER": "",
        "OMP_NUM_THREADS": "1",
    }
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(_PROGRAM)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
        text=True,
        start_new_session=True,
    )
    atexit.register(said.close)
    atexit.register(_end, server)
    return server, said


def _end(server: subprocess.Popen[str]) -> None:
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    for pipe in (server.stdin, server.stdout):
        if pipe is not None:
            pipe.close()
