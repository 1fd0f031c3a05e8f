"""Programs that need PyTorch, run side by side from one process that has imported it."""

import atexit
import functools
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

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
