"""Stacks by tools of others where our own reader has none: py-spy, gdb, a faulthandler's signal.

Both tools may hang or die with the process stopped (py-spy by SIGSTOP's kin of ptrace(2), gdb by
PTRACE_ATTACH, which sends a SIGSTOP). So each has a deadline, is killed with all that it started,
and the process is looked at afterwards: by us, and if we are killed by the tool's guardian.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from postmortem.errors import DebuggerError, EvidenceError
from postmortem.facts.source import Problem
from postmortem.facts.stackdumps import StackDump
from postmortem.facts.threads import Thread
from postmortem.readers.gdb.child import Child
from postmortem.readers.gdb.find import Gdb
from postmortem.readers.live.status import read_status
from postmortem.readers.stackdumps import fault_handler, pyspy
from postmortem.readers.stackdumps.frames import Interned

_LARGEST = 64 << 20
_LOOK_SECONDS = 0.01
_SIGNAL_SECONDS = 2.0
_MAX_FRAMES = 256


def by_pyspy(pid: int, *, deadline_seconds: float) -> StackDump:
    """Return the Python stacks that py-spy sees; raises EvidenceError."""
    path = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if path is None:
        raise EvidenceError("py-spy", "is not installed", hint="pip install py-spy")
    with _left_running(pid):
        command = (path, "dump", "--json", "--pid", str(pid))
        said, complaint = _output(command, deadline_seconds)
    if not said.strip():
        words = " ".join(complaint.split())[:200] or "no output"
        raise EvidenceError("py-spy", f"says of pid {pid}: {words}")
    dumps = pyspy.read_json(said, f"py-spy dump --pid {pid}", Interned())
    if not dumps:
        raise EvidenceError("py-spy", f"saw no thread of pid {pid}")
    return dumps[0]


def by_gdb(pid: int, gdb: Gdb, *, deadline_seconds: float) -> tuple[Thread, ...]:
    """Return the native stacks that gdb sees; raises DebuggerError where it sees none."""
    from postmortem.readers.gdb.stacks import read_live

    # Where it is interrupted nobody waits until gdb can answer: it is killed, which detaches.
    with _left_running(pid):
        said = read_live(pid, gdb=gdb, deadline_seconds=deadline_seconds, max_frames=_MAX_FRAMES)
    if not said.threads:
        why = said.problems[0] if said.problems else Problem("gdb", f"saw no thread of pid {pid}")
        raise DebuggerError(why.what, hint=why.remedy)
    return tuple(
        Thread(tid=row.tid, name=row.name, frames=row.frames, stopped=row.stopped)
        for row in said.threads
    )


def by_signal(pid: int, number: int) -> StackDump:
    """Have a process print its stacks by `faulthandler.register(number)`, and read them.

    Raises EvidenceError where the process has no handler for the signal (it would be killed), or
    writes to where nobody can read.
    """
    name = signal.Signals(number).name
    status = read_status(pid)
    if status is None:
        raise EvidenceError(f"pid {pid}", "is gone")
    if not status.caught >> (number - 1) & 1:
        raise EvidenceError(
            f"pid {pid}",
            f"has no handler for {name}, which would end it; it was not sent",
            hint=f"put faulthandler.register(signal.{name}) at the beginning of the program",
        )
    places = _places(pid)
    if not places:
        raise EvidenceError(
            f"pid {pid}",
            "writes its standard error to no file that can be read here",
            hint=f"kill -{name.removeprefix('SIG')} {pid}, and read what it prints",
        )
    try:
        os.kill(pid, number)
    except OSError as error:
        raise EvidenceError(f"pid {pid}", f"cannot be sent {name}: {error.strerror}") from None
    return _written(pid, places)


def _places(pid: int) -> list[tuple[str, int]]:
    """Return the regular files that its output goes to, and how long they are now."""
    found: dict[str, int] = {}
    for number in (2, 1):
        path = f"/proc/{pid}/fd/{number}"
        try:
            target = os.readlink(path)  # noqa: PTH115
            if target.startswith("/") and Path(path).is_file():
                found.setdefault(path, Path(path).stat().st_size)
        except OSError:
            continue
    return list(found.items())


def _written(pid: int, places: list[tuple[str, int]]) -> StackDump:
    end = time.monotonic() + _SIGNAL_SECONDS
    said = ""
    while time.monotonic() < end:
        for path, start in places:
            try:
                with open(path, "rb") as stream:  # noqa: PTH123
                    stream.seek(start)
                    text = stream.read(_LARGEST).decode("utf-8", "replace")
            except OSError:
                continue
            # Whole once nothing more comes; the thread that got the signal is written last.
            if "most recent call first" in text and text == said:
                dumps = fault_handler.read_text(text.splitlines(), Interned())
                if dumps:
                    return dumps[-1]
            if text:
                said = text
        time.sleep(_LOOK_SECONDS * 5)
    raise EvidenceError(f"pid {pid}", "wrote no stacks within 2 s of the signal")


def _output(command: Sequence[str], seconds: float) -> tuple[str, str]:
    tool = Path(command[0]).name
    try:
        with Child(command, cwd=None, env=os.environ) as child:
            heard = child.hear(seconds, _LARGEST)
    except OSError as error:
        raise EvidenceError(tool, f"cannot be started: {error.strerror}") from None
    if heard.ending is None:
        raise EvidenceError(tool, f"gave no answer within {seconds:g} s")
    return heard.said, heard.complaint


@contextlib.contextmanager
def _left_running(pid: int) -> Iterator[None]:
    """Let a process go on that a tool leaves stopped, also if we are killed in the block."""
    from postmortem import _native

    before = _state(pid)
    guardian, pipe = _native.start_guardian(pid)
    goes_on = False
    try:
        try:
            yield
        finally:
            goes_on = _wake(pid, before)
    finally:
        if goes_on:
            os.write(pipe, b".")
        os.close(pipe)
        os.waitpid(guardian, 0 if goes_on else os.WNOHANG)


def _state(pid: int) -> str:
    status = read_status(pid)
    return status.state if status is not None else ""


def _wake(pid: int, before: str) -> bool:
    """Let a process go on that a tool has left stopped, and that was not before.

    Returns whether it is as it was.
    """
    if before in ("", "T", "t"):
        return True
    for _ in range(20):
        status = read_status(pid)
        if status is None or status.state not in ("T", "t"):
            return True
        if status.state == "T" and status.tracer == 0:
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:
                return True
        time.sleep(_LOOK_SECONDS)
    return False
