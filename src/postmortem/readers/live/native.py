"""Our own reader over live processes, each in a child of its own that can be killed at any time.

When such a child ends, for whatever reason, the kernel lets the threads that it had stopped go on.
"""

from __future__ import annotations

import errno
import marshal
import os
import select
import signal
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from postmortem.readers.live.status import root_of
from postmortem.records import record

if TYPE_CHECKING:
    from postmortem._native import RawCore, RawLive

_REAP_SECONDS = 2.0
_CHUNK = 1 << 20
_LARGEST = 1 << 30
_ENDING = (signal.SIGINT, signal.SIGTERM)


@record
class NativeLive:
    """What the native reader said of one process, or why it said nothing."""

    core: RawCore | None = None
    live: RawLive | None = None
    error: str | None = None
    timed_out: bool = False


def read_native(
    pids: Iterable[int], *, stop: bool, deadline_seconds: float
) -> Mapping[int, NativeLive]:
    """Return what is read of each process; a few are read at once, each within the deadline."""
    wanted = list(pids)
    at_once = max(1, min(4, os.cpu_count() or 1))
    found: dict[int, NativeLive] = {}
    running: list[_Child] = []
    try:
        while wanted or running:
            while wanted and len(running) < at_once:
                running.append(_Child(wanted.pop(0), stop=stop, seconds=deadline_seconds))
            ready = {child.pipe: child for child in running}
            left = max(0.0, min(child.deadline for child in running) - time.monotonic())
            readable, _, _ = select.select(list(ready), [], [], left)
            for pipe in readable:
                ready[pipe].listen()
            for child in list(running):
                if child.ended or time.monotonic() >= child.deadline:
                    running.remove(child)
                    found[child.pid] = child.result()
    finally:
        for child in running:
            child.kill()
    return found


class _Child:
    """One child that reads one process."""

    def __init__(self, pid: int, *, stop: bool, seconds: float) -> None:
        self.pid = pid
        self.deadline = time.monotonic() + seconds
        self.ended = False
        self._heard = bytearray()
        self._seconds = seconds
        self.pipe, end = os.pipe()
        parent = os.getpid()
        # A Ctrl-C must not meet the child while it still has our handlers.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        self._child = os.fork()
        if self._child == 0:
            _work(pid, end, parent, stop=stop)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(end)

    def listen(self) -> None:
        data = os.read(self.pipe, _CHUNK)
        self._heard += data
        self.ended = not data or len(self._heard) > _LARGEST

    def kill(self) -> None:
        """End the child; safe to call twice."""
        if self._child == 0:
            return
        os.kill(self._child, signal.SIGKILL)
        os.close(self.pipe)
        end = time.monotonic() + _REAP_SECONDS
        # Stuck in the kernel (a dead file server) it cannot die yet; we do not wait for that.
        while os.waitpid(self._child, os.WNOHANG) == (0, 0) and time.monotonic() < end:
            time.sleep(0.001)
        self._child = 0

    def result(self) -> NativeLive:
        ended = self.ended
        self.kill()
        if not ended:
            return NativeLive(error=f"gave no answer within {self._seconds:g} s", timed_out=True)
        try:
            answer = marshal.loads(self._heard)
        except (EOFError, ValueError, TypeError):
            return NativeLive(error="the reader ended before it had answered")
        if isinstance(answer, str):
            return NativeLive(error=answer)
        return NativeLive(answer[0], answer[1])


def _work(pid: int, pipe: int, parent: int, *, stop: bool) -> None:
    """Read the process, write what was found, and end; never returns."""
    try:
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        from postmortem import _native

        if _native.die_with_parent(parent):
            data = marshal.dumps(cast("Any", _answer(pid, stop=stop)))
            view = memoryview(data)
            while view:
                view = view[os.write(pipe, view) :]
    finally:
        os._exit(0)


def _answer(pid: int, *, stop: bool) -> object:
    from postmortem import _native
    from postmortem.errors import EvidenceError

    try:
        return _native.read_process(pid, stop=stop, sysroot=root_of(pid))
    except EvidenceError as error:
        return error.what
    except MemoryError:
        return os.strerror(errno.ENOMEM)
