"""A program that may hang, die or flood its pipes, run so that nothing of it survives us."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from postmortem.readers.child import cpu_seconds_of
from postmortem.readers.siginfo import signal_name
from postmortem.records import record

_CHUNK = 1 << 16
# How long select() sleeps at most before the process itself is looked at. A pipe alone does not
# tell that gdb is dead: a program that it started may hold the other end open.
_LOOK = 0.1
# With both pipes closed nothing can wake select(), and the process is about to end.
_LOOK_AFTER_CLOSING = 0.005
_REAP_SECONDS = 2.0


@record
class Heard:
    """What a program said until it ended, or until nobody listened any longer."""

    said: str
    complaint: str
    """What it wrote on standard error."""
    ending: str | None
    """As `Child.ending`; None when it was left: its time was up, or it would not stop talking."""
    flooded: bool


class Child:
    """A program in a process group of its own; leaving the block kills it and all that it started.

    Its own group keeps a terminal's Ctrl-C from it, so that we decide when it ends. A guardian
    leads the group, and kills it if we end without having done so (SIGKILL).
    """

    def __init__(self, command: Sequence[str], *, cwd: str | None, env: Mapping[str, str]) -> None:
        self._command = tuple(command)
        self._cwd = cwd
        self._env = dict(env)
        self._pending = bytearray()
        self._open: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._process: subprocess.Popen[bytes] | None = None
        self._group = 0
        self._guardian_pipe = -1

    def __enter__(self) -> Self:
        from postmortem import _native

        self._group, self._guardian_pipe = _native.start_guardian()
        try:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=self._group,
                bufsize=0,
            )
        except BaseException:
            self._kill_group()
            raise
        for name in ("stdin", "stdout", "stderr"):
            pipe = getattr(self._process, name).fileno()
            os.set_blocking(pipe, False)
            if name != "stdin":
                self._selector.register(pipe, selectors.EVENT_READ, name)
                self._open.add(pipe)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._selector.close()

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._started.pid

    @property
    def group(self) -> int:
        """ID of the process group that it and what it starts are in."""
        return self._group

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the program has not been started")
        return self._process

    def send(self, data: bytes) -> None:
        """Queue bytes for its standard input; `pump` writes them as it takes them."""
        self._pending += data

    def pump(self, seconds: float) -> tuple[bytes, bytes]:
        """Write and read what is possible, waiting at most `seconds`; return (stdout, stderr).

        Never more than 64 KiB of each at once, so that a flood can be stopped.
        """
        self._watch_stdin()
        heard = {"stdout": b"", "stderr": b""}
        look = _LOOK if self._open else _LOOK_AFTER_CLOSING
        for key, _ in self._selector.select(max(0.0, min(seconds, look))):
            if key.data == "stdin":
                self._write(key.fd)
            else:
                heard[key.data] = self._read(key.fd)
        return heard["stdout"], heard["stderr"]

    def hear(self, seconds: float, most: int) -> Heard:
        """Return all that it says, up to `most` bytes and for that long."""
        heard = [bytearray(), bytearray()]
        end = time.monotonic() + seconds
        ending, flooded = None, False
        while True:
            finished = self.ending()
            for place, data in zip(heard, self.pump(end - time.monotonic()), strict=True):
                place += data
            # Once more after its end: what it wrote last may still be in the pipes.
            if finished is not None and (self.silent or ending is not None):
                break
            ending = finished
            flooded = sum(map(len, heard)) > most
            if flooded or time.monotonic() > end:
                finished = None
                break
        said, complaint = (bytes(part).decode("utf-8", "replace") for part in heard)
        return Heard(said, complaint, finished, flooded)

    @property
    def silent(self) -> bool:
        """Whether no more output can come: it has closed both pipes."""
        return not self._open

    def ending(self) -> str | None:
        """Return how it ended (``"exit status 1"``, ``"killed by SIGKILL"``), None if it runs.

        It is not reaped here: `kill` does that.
        """
        try:
            info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return "gone"
        if info is None:
            return None
        if info.si_code == os.CLD_EXITED:
            return f"exit status {info.si_status}"
        return f"killed by {signal_name(info.si_status)}"

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used; 0 where /proc does not tell (proc(5))."""
        return cpu_seconds_of(self.pid)

    def kill(self) -> None:
        """Kill the whole process group and reap the program; safe to call twice."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._kill_group()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        # Stuck in the kernel (a dead NFS server) it cannot die yet; we do not wait for that.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_REAP_SECONDS)

    def _kill_group(self) -> None:
        # Until its leader, the guardian, is reaped, the ID stays its own and hits no stranger.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, signal.SIGKILL)
        os.close(self._guardian_pipe)
        os.waitpid(self._group, 0)

    def _watch_stdin(self) -> None:
        pipe = self._started.stdin
        if pipe is None or pipe.closed:
            self._pending.clear()
            return
        watched = pipe.fileno() in self._selector.get_map()
        if self._pending and not watched:
            self._selector.register(pipe.fileno(), selectors.EVENT_WRITE, "stdin")
        elif not self._pending and watched:
            self._selector.unregister(pipe.fileno())

    def _write(self, pipe: int) -> None:
        try:
            written = os.write(pipe, self._pending[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:  # EPIPE: it no longer listens; that it died shows when it is looked at
            self._selector.unregister(pipe)
            stdin = self._started.stdin
            if stdin is not None:
                stdin.close()
            return
        del self._pending[:written]

    def _read(self, pipe: int) -> bytes:
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(pipe)
            self._open.discard(pipe)
        return data
