"""The process beside a command that does what a fault does, and undoes it whatever happens to us.

The guard is in a session of its own and has none of the command's files open. A child of it, the
actor, does the work; each of the two, and `emulate` itself, may be killed at any time.
"""

import contextlib
import os
import select
import signal
import struct
from collections.abc import Mapping

from postmortem.emulate.fault import Fault
from postmortem.emulate.namespaces import links
from postmortem.emulate.tree import end_all

_PID = struct.Struct("<i")
_MOST_SAID = 1 << 16


class Guard:
    """Started before the command, told of it as soon as it runs, and ended after it."""

    def __init__(self, fault: Fault, mark: str, outside: Mapping[str, str]) -> None:
        """Start it; `outside` are the namespaces that we were in before the fault was entered."""
        self._fault, self._mark = fault, mark
        control, self._control = os.pipe2(os.O_CLOEXEC)
        self._report, report = os.pipe2(os.O_CLOEXEC)
        every = signal.valid_signals()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, every)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                _guard(fault, mark, outside, parent, control, report)
                code = 0
            finally:
                os._exit(code)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(control)
        os.close(report)

    def started(self, command: int) -> None:
        """Tell it which process the command is."""
        with contextlib.suppress(OSError):
            os.write(self._control, _PID.pack(command))

    def finish(self) -> list[str]:
        """Have it end what is left and undo all; return what it did, in the order it did it."""
        os.close(self._control)
        said = b""
        while len(said) < _MOST_SAID:
            data = os.read(self._report, 4096)
            if not data:
                break
            said += data
        os.close(self._report)
        try:
            killed = os.waitpid(self.pid, 0)[1] != 0
        except ChildProcessError:  # its parent has heard of its end before: it was killed
            killed = True
        if killed:
            end_all([os.getpid()], self._mark, {}, without=())
            self._fault.undo()
        return said.decode("utf-8", "replace").splitlines()


def _guard(
    fault: Fault, mark: str, outside: Mapping[str, str], parent: int, control: int, report: int
) -> None:
    os.setsid()
    _keep_files(control, report)
    inside = {name: link for name, link in links("self").items() if outside.get(name) != link}
    data = os.read(control, _PID.size)
    command = _PID.unpack(data)[0] if len(data) == _PID.size else 0
    pidfd, actor = _descriptor_of(command), 0
    try:
        if command and fault.acts:
            actor, end = _start_actor(fault, command, control, report)
            # Either the command is over, or the actor: then it may have been killed at work.
            if control not in select.select([control, end], [], [])[0]:
                fault.relax(command)
        os.read(control, 1)  # ends when the command is over, or `emulate`
    finally:
        if actor:
            os.kill(actor, signal.SIGKILL)
            os.waitpid(actor, 0)
            fault.relax(command)
        # Children of `emulate` while it lives; when it was killed they have no parent of ours.
        alive = os.getppid() == parent
        runs = pidfd >= 0 and not select.select([pidfd], [], [], 0)[0]
        roots = [parent] if alive else [command] * runs
        end_all(roots, mark, inside, without=[parent] if alive else [])
        fault.undo()


def _descriptor_of(command: int) -> int:
    """Return what tells whether a process runs still; its number may be another's later."""
    try:
        return os.pidfd_open(command) if command else -1
    except OSError:
        return -1


def _start_actor(fault: Fault, command: int, control: int, report: int) -> tuple[int, int]:
    """Start the actor; return its pid, and a pipe that ends with it."""
    end, alive = os.pipe2(os.O_CLOEXEC)
    over, hold = os.pipe2(os.O_CLOEXEC)
    actor = os.fork()
    if actor:
        os.close(alive)
        os.close(over)
        return actor, end  # `hold` stays open: it ends with the guard, and tells the actor so
    try:
        for one in (control, end, hold):
            os.close(one)

        def wait(seconds: float) -> bool:
            return not select.select([over], [], [], max(0.0, seconds))[0]

        def say(words: str) -> None:
            with contextlib.suppress(OSError):
                os.write(report, f"{words}\n".encode())

        try:
            fault.act(command, wait, say)
        except Exception as error:
            say(f"not done: {type(error).__name__}: {error}")
        finally:
            fault.relax(command)
    finally:
        os._exit(0)


def _keep_files(*kept: int) -> None:
    """Let go of all other files: who reads the command's output waits until nobody has it open.

    Their numbers stay taken: what is loaded here (the hook of `run`) may close, after a fork, a
    number that it believes to be its own.
    """
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) not in kept and int(name) != nowhere:
            with contextlib.suppress(OSError):
                os.fstat(int(name))
                os.dup2(nowhere, int(name), inheritable=False)
