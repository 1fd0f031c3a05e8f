"""A child of ours that does what may end badly: limited, watched, never waited for in vain.

Evidence may be made to take all memory, to loop, or to break the reader, and a file may lie on a
file system that does not answer; a process that waits for one cannot even be killed. So it is read
by a child that has a limit of memory and fewer rights, and that dies with us. What it was at when
it ended stands in a page that both share (`postmortem.underway`).

Every page of memory that a process has touched costs its child a copy. So this imports little: no
typing, no records.
"""

import gc
import os
import signal
import stat
import time
from contextlib import suppress
from mmap import mmap

from postmortem import underway
from postmortem.readers.siginfo import signal_name

MOST_TRIES = 8
"""How many files may be left out, one after the other, before nothing is read."""
_CHUNK = 1 << 20
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


class Ending:
    """How a child ended, or had to be ended."""

    def __init__(
        self,
        *,
        code: int | None = None,
        signal: int | None = None,
        why: str | None = None,
        path: str | None = None,
        silent: bool = False,
    ) -> None:
        self.code = code
        """Its exit status; None if it was killed."""
        self.signal = signal
        """What killed it, if not we."""
        self.why = why
        """What it did wrong, in words that follow the name of a file; None if nothing."""
        self.path = path
        """The file that it was reading."""
        self.silent = silent
        """Whether the file system of that gave no answer."""


def leave_out(path: str, ending: Ending) -> None:
    """Have the next child not open what was the end of this one."""
    underway.refused[_mount_of(path) if ending.silent else path] = ending.why or "is unreadable"


def _mount_of(path: str) -> str:
    """Return the file system that gave no answer, as a folder; the file where it is the root."""
    from postmortem.readers.mounts import mount_of, mountinfo

    mount = mount_of(os.path.abspath(path), mountinfo())  # noqa: PTH100  which asks no file system
    return path if mount is None or mount.place == "/" else f"{mount.place}/"


class Child:
    """A child, from the side of its parent."""

    def __init__(self, pid: int, page: mmap) -> None:
        self.pid = pid
        self.page = underway.Page(page)
        self._ending: Ending | None = None
        self._turn = -1
        self._activity = b""
        self._moved = time.monotonic()

    def look(self) -> Ending | None:
        """Return how it ended, None if it goes on; one over its limits is ended here."""
        if self._ending is not None:
            return self._ending
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self._ending = self._ended(status)
        else:
            why = self._excess()
            if why is not None:
                path = self.page.path
                silent = self._is_silent()
                self.kill()
                self._ending = Ending(why=why, path=path, silent=silent)
        return self._ending

    def wait(self) -> Ending:
        """Return how it ended; for one that has nothing left to do."""
        if self._ending is None:
            self._ending = self._ended(os.waitpid(self.pid, 0)[1])
        return self._ending

    def kill(self) -> None:
        """End it; one that waits in the kernel (a dead file server) is left to it."""
        if self._ending is None:
            os.kill(self.pid, signal.SIGKILL)
            end = time.monotonic() + 0.5
            while os.waitpid(self.pid, os.WNOHANG) == (0, 0) and time.monotonic() < end:
                time.sleep(0.002)
            self._ending = Ending()
        self._clean_up()

    def _ended(self, status: int) -> Ending:
        path = self.page.path
        if self.page.lacked_memory:
            self._clean_up()
            return Ending(why=self._memory_words(), path=path)
        if not os.WIFSIGNALED(status):
            return Ending(code=os.WEXITSTATUS(status), path=path)
        self._clean_up()
        number = os.WTERMSIG(status)
        why = f"ended the process that read it ({signal_name(number)})"
        return Ending(signal=number, why=why, path=path)

    def _memory_words(self) -> str:
        return f"took more than {(self.page.memory_bytes or 0) / 1e9:.1f} GB of memory to read"

    def _excess(self) -> str | None:
        """Return which limit it has passed."""
        state = self.page.state
        if state == underway.WRITING:
            return None  # whoever reads the report may take any time
        most = self.page.cpu_seconds
        if most is not None and cpu_seconds_of(self.pid) > most:
            return f"took more than {most:g} s of processor time to read"
        patience = self.page.patience_seconds
        if patience is None or state != underway.READING:
            self._moved = time.monotonic()
            return None
        turn, activity = self.page.turn, _activity(self.pid)
        if (turn, activity) != (self._turn, self._activity):
            self._turn, self._activity = turn, activity
            self._moved = time.monotonic()
            return None
        return f"gave no answer for {patience:g} s" if self._is_silent() else None

    def _is_silent(self) -> bool:
        patience = self.page.patience_seconds
        return patience is not None and time.monotonic() - self._moved > patience

    def _clean_up(self) -> None:
        for path in self.page.leavings:
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108  as the child wrote it
                continue
            import shutil

            shutil.rmtree(path, ignore_errors=True)


class Output:
    """Standard output and standard error where they are pipes, kept from a child until it writes.

    A child that can neither go on nor be killed would hold them open, and who reads them would wait
    for their end. What the child says before is kept in memory, and comes out with the rest.
    """

    def __init__(self) -> None:
        from postmortem import _native

        self._numbers = [number for number in (1, 2) if _is_pipe(number)]
        self._drawer = _native.put_away(self._numbers) if self._numbers else -1

    def hold_back(self) -> None:
        """In the child: write into memory until `underway.writing` is called."""
        for number in self._numbers:
            memory = os.memfd_create("output")
            os.dup2(memory, number)
            os.close(memory)
        if self._numbers:
            underway.before_writing = self._release

    def _release(self) -> None:
        from postmortem import _native

        for number, found in zip(self._numbers, _native.take_out(self._drawer), strict=False):
            said = os.pread(number, _CHUNK, 0)
            os.dup2(found, number)
            os.close(found)
            while said:
                said = said[os.write(number, said) :]

    def take_away(self) -> None:
        """In the parent: let no child have them any more."""
        from postmortem import _native

        if self._drawer >= 0:
            for found in _native.take_out(self._drawer):
                os.close(found)
            os.close(self._drawer)


def _is_pipe(number: int) -> bool:
    try:
        mode = os.fstat(number).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def fork(page: mmap) -> Child | None:
    """Return a child; in the child itself None. It has no limits until `child_limits.limit`.

    No thread but the caller may run. Raises OSError.
    """
    underway.Page(page).clear()
    parent = os.getpid()
    # A signal must not meet the child while it has what its parent does about signals.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    gc.freeze()  # a collection in the child would copy all pages that it shares with us
    try:
        pid = os.fork()
        if pid:
            return Child(pid, page)
        _begin(page, parent)
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(page: mmap, parent: int) -> None:
    from postmortem import _native

    if not _native.die_with_parent(parent):
        os._exit(1)
    underway.watch(page)
    _native.watch(page)
    for path, why in underway.refused.items():
        _native.refuse(path, why)


def cpu_seconds_of(pid: int) -> float:
    """Return the processor time that a process has used; 0 where /proc does not tell (proc(5))."""
    try:
        fields = read_from_kernel(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _activity(pid: int) -> bytes:
    """Return something that changes whenever any thread of a process has run."""
    rows: list[bytes] = []
    with suppress(OSError):
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        rows.extend(read_from_kernel(f"/proc/{pid}/task/{task}/schedstat") for task in tasks)
    return b"".join(rows)


def read_from_kernel(path: str) -> bytes:
    """Return what the kernel tells in a file; raises OSError."""
    with open(path, "rb") as stream:  # noqa: PTH123
        return stream.read()
