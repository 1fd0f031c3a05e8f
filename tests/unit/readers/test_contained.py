"""Calls in a child: what comes back, and what becomes of a child that does not come back."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from postmortem import underway
from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem, Source
from postmortem.readers.contained import Running, run

_SECONDS = 60


def bomb() -> int:
    kept = []
    while True:
        kept.append(bytearray(16 << 20))


def loop() -> None:
    while True:
        pass


def wait() -> None:
    time.sleep(1000)


def crash() -> None:
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)


def refuses() -> None:
    raise EvidenceError("a.log", "is no log", hint="name another")


def fails() -> None:
    raise ZeroDivisionError("by nothing")


def interrupted() -> None:
    raise KeyboardInterrupt


def reads_and_dies(path: str) -> None:
    underway.reading(path)
    crash()


def large(size: int) -> str:
    return "x" * size


def limits() -> tuple[int, int, bool]:
    status = Path("/proc/self/status").read_text()
    return (
        resource.getrlimit(resource.RLIMIT_CORE)[0],
        resource.getrlimit(resource.RLIMIT_DATA)[0],
        "NoNewPrivs:\t1" in status,
    )


def nested() -> Any:
    return run(crash, where="inner"), run(os.getpid, where="inner"), os.getpid()


def facts() -> tuple[Source, set[int], dict[str, float]]:
    return Source("a", 3), {1, 2}, {"b": 0.5}


class Foreign:
    def __reduce__(self) -> Any:
        return (os.system, ("exit 7",))


def what(answer: object) -> str:
    assert isinstance(answer, Problem)
    assert answer.where == "it"
    return answer.what


def test_facts_come_back_as_they_are() -> None:
    assert run(facts, where="it") == (Source("a", 3), {1, 2}, {"b": 0.5})
    size = 50_000_000  # many times what a pipe holds
    assert run(large, size, where="it") == large(size)


def test_a_child_has_fewer_rights_and_we_have_ours() -> None:
    before = limits()
    assert run(limits, where="it", memory=1 << 30) == (0, 1 << 30, True)
    assert limits() == before


def test_memory_ends_at_the_limit() -> None:
    assert "took more than 0.3 GB of memory" in what(run(bomb, where="it", memory=300_000_000))


@pytest.mark.parametrize("function", [loop, wait])
def test_time_ends_at_the_deadline(function: Any) -> None:
    began = time.monotonic()
    assert "took more than 0.5 s" in what(run(function, where="it", seconds=0.5))
    assert time.monotonic() - began < _SECONDS


def test_a_crash_is_told_with_the_file_at_which_it_came() -> None:
    assert what(run(crash, where="it")) == "ended the process that read it (SIGSEGV)"
    told = what(run(reads_and_dies, "/a/b", where="it"))
    assert told == "ended the process that read it (SIGSEGV) (at /a/b)"


def test_exceptions_are_problems() -> None:
    assert run(refuses, where="it") == Problem("a.log", "is no log", "name another")
    assert what(run(fails, where="it")) == "unexpected ZeroDivisionError: by nothing"
    assert "ended the process" in what(run(interrupted, where="it"))


def test_what_a_child_says_calls_nothing() -> None:
    assert "ended the process" in what(run(Foreign, where="it"))
    assert "ended the process" in what(run(lambda: os.system, where="it"))


def test_nested() -> None:
    answer = run(nested, where="it")
    assert not isinstance(answer, Problem)
    inner, innermost, middle = answer
    assert inner == Problem("inner", "ended the process that read it (SIGSEGV)")
    assert len({innermost, middle, os.getpid()}) == 3


def test_side_by_side() -> None:
    running: list[Running[Any]] = [
        Running(function, where="it", seconds=_SECONDS) for function in (crash, os.getpid, fails)
    ]
    crashed, pid, failed = (one.result() for one in running)
    assert isinstance(pid, int)
    assert "SIGSEGV" in what(crashed)
    assert "ZeroDivisionError" in what(failed)


def children() -> set[str]:
    """The children of this process, ended ones too: other tests keep some of their own."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(stat.parent.name)
    return found


def test_no_child_and_no_descriptor_is_left() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    mine = children()
    for function in (crash, os.getpid, refuses):
        run(function, where="it")
    run(wait, where="it", seconds=0.1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert children() == mine


PARENT = """
import os, sys, time
from pathlib import Path
from postmortem.readers.contained import Running
def child():
    Path(sys.argv[1] + ".new").write_text(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    time.sleep(1000)
Running(child, where="it").result()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_child_dies_with_its_parent(number: signal.Signals, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    command = [sys.executable, "-c", PARENT, str(mark)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
        end = time.monotonic() + _SECONDS
        while not mark.exists() and time.monotonic() < end:
            time.sleep(0.01)
        child = int(mark.read_text())
        parent.send_signal(number)
        parent.wait(_SECONDS)
    end = time.monotonic() + _SECONDS
    status = Path(f"/proc/{child}/status")
    while status.exists() and "State:\tZ" not in status.read_text() and time.monotonic() < end:
        time.sleep(0.01)
    assert time.monotonic() < end
