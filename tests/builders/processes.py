"""Programs that a test starts, waits for and looks at; none outlives it."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

SECONDS = 120.0
"""How long anything may take before the test fails."""


def until(holds: Callable[[], object], what: str = "it comes true") -> None:
    """Wait until something holds; fail where it does not."""
    end = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"waited {SECONDS} s in vain: {what}")
        time.sleep(0.02)


def state(pid: int) -> str:
    """Return the state of a process; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return ""


@contextmanager
def speaking(*words: object, **options: Any) -> Iterator[tuple["subprocess.Popen[str]", IO[str]]]:
    """Start a program that says how far it has come, and end it: the process, and what it says."""
    command = list(map(str, words))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout
        finally:
            process.kill()
