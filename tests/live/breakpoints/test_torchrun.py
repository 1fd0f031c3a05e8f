"""Breakpoints in jobs of torchrun: who stops, who waits, and that all are let go."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from builders.prose import Prose
from builders.terminals import SECONDS, Job, Terminal

Torchrun = Callable[..., Job]
Attach = Callable[..., Terminal]
SHORT = 3.0
"""The process group's time-out; debuggers below stay longer."""


def outstay() -> None:
    time.sleep(SHORT + 2)


def asked_until(near: Terminal, answer: str) -> None:
    """Ask who waits until a line of the answer is as an expression says."""
    end = time.monotonic() + SECONDS
    said = ""
    while not re.search(answer, said, re.M):
        assert time.monotonic() < end, said
        near.type("ranks\r")
        said = near.until("(rank 1) ")


def nothing_left(env: dict[str, str]) -> bool:
    return not any(Path(env["POSTMORTEM_ATTACH_DIR"]).iterdir())


def test_the_others_wait_beyond_their_time_outs(
    torchrun: Torchrun, attach: Attach, env: dict[str, str]
) -> None:
    job = torchrun("plain", SHORT)
    near = attach()
    near.until("(rank 1) ")
    asked_until(near, "^3 ")
    near.type("p secret\r")
    near.until("42")
    outstay()
    near.type("secret = 100\r")
    near.until("(rank 1) ")
    near.type("c\r")
    near.rest()
    assert near.process.returncode == 0
    assert near.modes_now() == near.modes
    assert job.ends() == 0
    assert job.output.count("over") == 4
    assert ":1] secret 101" in job.output
    assert ":3] secret 45" in job.output
    assert nothing_left(env)


def test_quit_lets_the_others_go(torchrun: Torchrun, attach: Attach) -> None:
    job = torchrun("plain", SHORT)
    near = attach()
    near.until("(rank 1) ")
    near.type("q\r")
    assert "quit" in near.rest()
    assert job.ends() != 0  # as after any exception of one rank
    assert "bdb.BdbQuit" in job.output
    assert job.output.count("] secret") == 3  # the others went on from the breakpoint


def test_a_terminal_that_is_killed_lets_all_go_on(torchrun: Torchrun, attach: Attach) -> None:
    job = torchrun("plain", SHORT)
    near = attach()
    near.until("(rank 1) ")
    near.process.kill()
    assert job.ends() == 0
    assert job.output.count("over") == 4


def test_the_rank_is_killed_in_the_debugger(torchrun: Torchrun, attach: Attach) -> None:
    job = torchrun("plain", SHORT)
    near = attach()
    near.until("(rank 1) ")
    os.kill(job.pid_of(1), signal.SIGKILL)
    near.rest()
    assert near.process.returncode == 3
    assert job.ends() != 0


def test_stepping_into_a_collective_lets_the_others_go(torchrun: Torchrun, attach: Attach) -> None:
    job = torchrun("collective", SHORT)
    near = attach()
    near.until("(rank 1) ")
    seen = ""
    for _ in range(5):
        near.type("n\r")
        seen += near.until("(rank 1) ")
    near.type("p secret, int(total)\r")
    seen += near.until("4)")
    assert "calls all_reduce," in seen
    outstay()  # the others wait in the next collective now, their time-outs made long
    near.type("c\r")
    near.rest()
    assert job.ends() == 0
    assert job.output.count("over") == 4


def test_a_long_line_lets_the_others_go(torchrun: Torchrun, attach: Attach) -> None:
    job = torchrun("long", 60)
    near = attach()
    near.until("(rank 1) ")
    near.type("n\rn\rn\rn\rn\r")
    job.until("secret", 3)  # of the ranks that waited
    near.type("c\r")
    near.rest()
    assert job.ends() == 0


def test_release_by_hand(torchrun: Torchrun, attach: Attach, prose: Prose) -> None:
    job = torchrun("plain", SHORT)
    near = attach()
    near.until("(rank 1) ")
    near.type("release\r")
    job.until("secret", 3)
    near.type("ranks\r")
    near.until("ranks\r\n")
    prose(near.until("\r\n"))
    outstay()  # they stand in a barrier
    near.type("c\r")
    near.rest()
    assert job.ends() == 0


def test_each_of_a_set_of_ranks_stops(torchrun: Torchrun, attach: Attach) -> None:
    job = torchrun("set", SHORT)
    first, second = attach("--rank", "1"), attach("--rank", "2")
    second.until("(rank 2) ")
    first.until("(rank 1) ")
    second.type("c\r")
    outstay()
    assert "secret" not in job.output
    first.type("c\r")
    assert job.ends() == 0
    assert job.output.count("over") == 4


def test_when(torchrun: Torchrun, attach: Attach) -> None:
    job = torchrun("when", SHORT)
    near = attach()
    near.until("(rank 1) ")
    near.type("p step\r")
    near.until("150")
    near.type("c\r")
    near.rest()
    assert job.ends() == 0
    assert job.output.count("over") == 4


def test_a_rank_that_is_not_here_is_named(torchrun: Torchrun, attach: Attach) -> None:
    job = torchrun("absent", 60)
    near = attach()
    near.until("(rank 1) ")
    asked_until(near, r"^2 .*\b1 .*\b3\)")
    near.type("c\r")
    near.rest()
    assert job.ends() == 0


def test_a_rank_that_never_comes_is_given_up(torchrun: Torchrun) -> None:
    job = torchrun("never", 60)
    assert job.ends() == 0
    assert job.output.count("rank 1 ") == 3


@pytest.mark.parametrize("kind", ["raising", "raising-collective"])
def test_on_exception(torchrun: Torchrun, attach: Attach, kind: str) -> None:
    job = torchrun(kind, SHORT)  # each rank writes its own traceback, not the first to end alone
    near = attach()
    near.until("(rank 1) ")
    near.type("p culprit\r")
    near.until("1000")
    outstay()
    assert "over" not in job.output
    assert job.process.poll() is None
    near.type("q\r")
    near.rest()
    assert job.ends() != 0
    assert "KeyError: 1000" in job.output
