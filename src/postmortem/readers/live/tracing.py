"""strace on a process that lives: for some seconds, and then it is always let go.

strace attaches with PTRACE_SEIZE, so the kernel lets the process go on if strace is killed; and
strace is told to end when we die. Nothing of this can leave the process stopped.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from postmortem.errors import EvidenceError
from postmortem.readers.live.status import read_status
from postmortem.records import record

_DETACH_SECONDS = 10.0
_MOST_BYTES = 2 << 30
_LOOK_SECONDS = 0.1


@record
class Recording:
    """What came of it."""

    seconds: float
    ended_because: str
    """``"time"``, ``"interrupt"``, ``"size"`` (of the log) or ``"exit"`` (of the process)."""
    still_traced: bool
    """Whether somebody still traces the process; it never should be us."""


def record_calls(pid: int, words: Sequence[str], log: Path, seconds: float) -> Recording:
    """Have ``strace WORDS -o LOG -p PID`` record for some seconds, and detach.

    Raises EvidenceError where there is no strace, no such process, or no right to attach.
    """
    strace = shutil.which("strace")
    if strace is None:
        raise EvidenceError("strace", "is not on PATH", hint="apt install strace")
    if not Path(f"/proc/{pid}").is_dir():
        raise EvidenceError(str(pid), "there is no such process")
    began = time.monotonic()
    child = subprocess.Popen(
        [strace, *words, "-o", str(log), "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        preexec_fn=_end_with(os.getpid()),
    )
    why = "interrupt"
    try:
        why = _wait(child, log, began + seconds)
    except KeyboardInterrupt:
        pass
    finally:
        said = _end(child)
    taken = time.monotonic() - began
    if not log.exists() or (log.stat().st_size == 0 and "ttach" in said and child.returncode):
        _refuse(pid, said)
    return Recording(taken, why, still_traced=_tracer(pid) == child.pid)


def _wait(child: subprocess.Popen[str], log: Path, until: float) -> str:
    while time.monotonic() < until:
        try:
            child.wait(min(_LOOK_SECONDS, max(0.0, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            if log.exists() and log.stat().st_size > _MOST_BYTES:
                return "size"
        else:
            return "exit"
    return "time"


def _end(child: subprocess.Popen[str]) -> str:
    """Have it detach; if it does not, kill it: the kernel detaches then. Return what it said."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
    try:
        return child.communicate(timeout=_DETACH_SECONDS)[1]
    except subprocess.TimeoutExpired:
        child.kill()
        return child.communicate()[1]


def _end_with(parent: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(1, int(signal.SIGTERM), 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _tracer(pid: int) -> int:
    status = read_status(pid)
    return status.tracer if status is not None else 0


def _refuse(pid: int, said: str) -> None:
    words = (said.strip().splitlines() or ["strace ended at once"])[0].removeprefix("strace: ")
    tracer = _tracer(pid)
    hint = "the same user as the process, or root; /proc/sys/kernel/yama/ptrace_scope 0"
    if tracer:
        hint = f"process {tracer} traces it already (a debugger, another strace)"
    raise EvidenceError(str(pid), words, hint=hint)
