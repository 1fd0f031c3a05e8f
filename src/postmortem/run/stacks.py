"""Takes the stacks of a job at the moment when one of its processes fails.

It is a child of the supervisor's that does it: it can be killed at any time, and whatever it had
stopped goes on when it ends, for the kernel sees to that.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from postmortem.records import record

LIMIT_SECONDS = 3.0
"""How long others wait until they are read."""
WRITING_SECONDS = 10.0
"""How long the report may take then, on a busy machine, when nobody waits any more but us."""
TIMEOUT_SAMPLES = 12
"""Of a job that is out of time: they tell who is slow from who is stuck."""
_GAP_SECONDS = 0.5
_SAMPLING_SECONDS = 10.0
"""Leaves time for the rest, also where one sample takes five seconds: all is over after 30."""
_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17


@record
class Shot:
    """What to read."""

    command: int
    without: tuple[int, ...]
    """Processes that have failed: what they did is known."""
    held: tuple[int, ...]
    """Launchers, which may not end the others before they are read."""
    out: Path
    samples: int = 1


def preload() -> None:
    """Import what a shot needs, while there is time."""
    import postmortem.analyses.hang
    import postmortem.render.json
    import postmortem.render.terminal  # noqa: F401


def take(shot: Shot) -> tuple[int, int]:
    """Begin to take the stacks in a child: its pid, and a pipe that ends when all are read."""
    parent = os.getpid()
    pipe, end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _work(shot, parent, end)
    os.close(end)
    return pid, pipe


def _work(shot: Shot, parent: int, pipe: int) -> None:
    """Read, write, and end; never returns."""
    began = time.monotonic()
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.alarm(30)
        _silence()
        held = _hold(shot.held)
        from postmortem.analyses.hang import report_on
        from postmortem.analyses.live_job import HangOptions, read_job
        from postmortem.readers.live.snapshot import ReadOptions
        from postmortem.render import json as renderer
        from postmortem.render import terminal

        if os.getppid() != parent:
            return
        left = max(0.5, LIMIT_SECONDS - 0.5 - (time.monotonic() - began))
        reading = ReadOptions(engine="native", deadline_seconds=left)
        options = HangOptions(
            pids=(shot.command,),
            without=shot.without,
            reading=reading,
            samples=shot.samples,
            gap_seconds=_GAP_SECONDS,
            within_seconds=_SAMPLING_SECONDS,
        )
        read = read_job(options)
        _let_go(held)
        os.close(pipe)
        report = report_on(read, options)
        partial = shot.out.with_suffix(".partial")
        with partial.open("w", encoding="utf-8", errors="surrogateescape") as stream:
            renderer.render(report, stream)
        with shot.out.with_suffix(".txt").open("w", errors="surrogateescape") as stream:
            terminal.render(report, stream)
        partial.replace(shot.out)
    except Exception as error:
        with contextlib.suppress(OSError):
            shot.out.with_suffix(".why").write_text(f"{error}\n")
    finally:
        os._exit(0)


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)


def _hold(pids: Sequence[int]) -> list[int]:
    """Stop the main threads of launchers; should this process end, the kernel lets them go."""
    return [pid for pid in pids if _ptrace(_SEIZE, pid) == 0 and _ptrace(_INTERRUPT, pid) == 0]


def _let_go(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0x40000000)  # __WALL: it must have come to its stop before
        _ptrace(_DETACH, pid)


def _ptrace(request: int, pid: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    return int(libc.ptrace(request, pid, None, None))
