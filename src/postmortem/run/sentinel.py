"""Tells a signal that was sent to our process group from one that was sent to us alone.

Of the first the command has its own; the second has to be passed on. A child of ours in the same
group, which does nothing else, gets exactly those of the group.
"""

import os
import signal

PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGCONT,
    signal.SIGTSTP,
)
_WAKE = signal.SIGRTMIN
"""From the supervisor, which is about to stop as the command did: wake it when that goes on."""


class Sentinel:
    """The child, and the end of a pipe to which it writes a byte for each signal of the group."""

    def __init__(self, command: int) -> None:
        self.pipe, end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        parent = os.getpid()
        every = signal.valid_signals()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, every)
        self.pid = os.fork()
        if self.pid == 0:
            _watch(end, parent, command)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(end)

    def heard(self) -> list[int]:
        """Return the signals that came since the last call."""
        try:
            return list(os.read(self.pipe, 4096))
        except BlockingIOError:
            return []

    def wake_me_with(self) -> None:
        """Have it send us SIGCONT as soon as the command, which is stopped, goes on."""
        os.kill(self.pid, _WAKE)

    def end(self) -> None:
        """End it."""
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.pipe)


def _watch(pipe: int, parent: int, command: int) -> None:
    """Write down signals until the supervisor ends; never returns."""
    try:
        _forget_files(pipe)
        wanted = {*PASSED_ON, _WAKE}
        watched = False
        while os.getppid() == parent:
            # Waits with a limit: the supervisor may have been killed, and leaves nobody behind.
            info = signal.sigtimedwait(wanted, 0.1 if watched else 1.0)
            if info is not None and info.si_signo == _WAKE:
                watched = True
            elif info is not None:
                os.write(pipe, bytes([info.si_signo]))
            if watched and _state(parent) == "T" and _state(command) not in ("T", "t"):
                os.kill(parent, signal.SIGCONT)
                watched = False
    finally:
        os._exit(0)


def _forget_files(pipe: int) -> None:
    """Close everything: who reads the command's output waits until nobody has it open."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) != pipe:
            try:
                os.close(int(name))
            except OSError:
                continue


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:  # noqa: PTH123
            return chr(stream.read(4096).rpartition(b") ")[2][0])
    except (OSError, IndexError):
        return ""
