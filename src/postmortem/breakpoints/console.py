"""A terminal inside of the process: the debugger's standard input and output while it runs.

A debugger needs a real terminal, with a size, editing of lines and raw keys (PuDB). So descriptors
0 and 1 become a pseudoterminal, and a thread carries bytes between it and whoever sits at the far
end: the terminal that the rank was started from, or a connection. Standard error stays where it is.
"""

import contextlib
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

_CHUNK = 1 << 14
_MOST_PENDING = 1 << 16
_LEAVE = b"\x1d"
"""Ctrl-], as telnet has it."""


class Gone(Exception):
    """Nobody sits at the far end any more."""


class Far(Protocol):
    """The far end of the terminal."""

    term: str | None
    no_more_keys: bool
    """All keys have been typed (a script's): who has read them may leave."""

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns, as they are now."""

    def fileno(self) -> int:
        """Return the descriptor that keys come from."""

    def keys(self) -> bytes:
        """Return what was typed; raises Gone."""

    def show(self, data: bytes) -> None:
        """Show bytes; raises Gone."""

    def close(self, words: str) -> None:
        """Say the last words and leave everything as it was."""

    def drop(self) -> None:
        """Close this process's copy, and nothing else."""


class Console:
    """Standard input and output of this process on a pseudoterminal, for as long as it is taken."""

    def __init__(self, far: Far) -> None:
        self.lost = threading.Event()
        """The far end has gone; the process has its own input and output again."""
        self.tick: Callable[[], None] = lambda: None
        """Called about once a second by the thread that carries bytes."""
        self.hung_up: Callable[[], None] = lambda: None
        """Called by that thread when the far end has gone; returns when nobody reads keys any more,
        or will not stop to."""
        self._far = far
        self._lock = threading.Lock()
        self._taken = self._done = False
        self._pid = os.getpid()
        self._pending = b""
        self._notes: list[str] = []
        self._thread = threading.Thread(target=self._carry, name="postmortem-console", daemon=True)

    def take(self, typed: bytes = b"") -> None:
        """Put descriptors 0 and 1, sys.stdin and sys.stdout on a new pseudoterminal.

        `typed` are keys that came before it was there.
        """
        self._pending = typed
        self._master, self._slave = os.openpty()
        os.set_blocking(self._master, False)
        self._ear, self._bell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._resize()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        self._kept = [_copy(number) for number in (0, 1)]
        self._streams = (sys.stdin, sys.stdout, os.environ.get("TERM"))
        os.dup2(self._slave, 0)
        os.dup2(self._slave, 1)
        # pdb edits lines by readline only where these are descriptors 0 and 1.
        sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        sys.stdout = open(  # noqa: SIM115
            1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
        )
        self._own = (sys.stdin, sys.stdout)
        if self._far.term:
            os.environ["TERM"] = self._far.term
        self._taken = True
        _taken.append(self)
        self._thread.start()

    def note(self, text: str) -> None:
        """Show a line, from any thread."""
        self._notes.append(text)
        with contextlib.suppress(OSError):
            os.write(self._bell, b"!")

    def give_back(self, words: str) -> None:
        """Give the process its own input and output; show what is left and the last words."""
        self._restore()
        self._done = True
        if threading.current_thread() is not self._thread:
            self._thread.join(5)
        with contextlib.suppress(Gone):
            self._far.close(words)

    def _restore(self) -> None:
        with self._lock:
            if not self._taken:
                return
            self._taken = False
            with contextlib.suppress(OSError, ValueError):
                self._own[1].flush()
            for number, kept in enumerate(self._kept):
                if kept is None:
                    os.close(number)
                else:
                    os.dup2(kept, number)
                    os.close(kept)
            if sys.stdin is self._own[0]:
                sys.stdin = self._streams[0]
            if sys.stdout is self._own[1]:
                sys.stdout = self._streams[1]
            if self._far.term:
                if self._streams[2] is None:
                    os.environ.pop("TERM", None)
                else:
                    os.environ["TERM"] = self._streams[2]
            os.close(self._slave)
            _taken.remove(self)

    def in_child(self) -> None:
        """In a child of a fork: let go of the terminal, which is its parent's."""
        self._lock = threading.Lock()
        self._restore()
        for number in (self._master, self._ear, self._bell):
            os.close(number)
        with contextlib.suppress(OSError):
            self._far.drop()

    def _carry(self) -> None:
        try:
            self._loop()
        except Gone:
            self.lost.set()
        finally:
            # A debugger at its prompt finds its terminal hung up, and leaves.
            for number in (self._master, self._ear, self._bell):
                os.close(number)
        if self.lost.is_set():
            self.hung_up()
            self._restore()  # what the program prints from now on must not fail

    def _loop(self) -> None:
        next_tick, quiet = time.monotonic() + 1, time.monotonic()
        far = self._far.fileno()
        while True:
            readers = [self._master, self._ear]
            if len(self._pending) <= _MOST_PENDING:
                readers.append(far)
            writers = [self._master] if self._pending else []
            ready, writable, _ = select.select(readers, writers, [], 0.05 if self._done else 0.5)
            if self._master in ready:
                data = self._output()
                if data is None:
                    return
                self._far.show(data)
            elif self._done:
                return
            if self._ear in ready:
                os.read(self._ear, _CHUNK)
            while self._notes:
                self._far.show(f"\r\n{self._notes.pop(0)}\r\n".encode())
            if far in ready:
                self._typed(self._far.keys())
            if ready or self._unread():
                quiet = time.monotonic()
            elif self._far.no_more_keys and time.monotonic() > quiet + 1:
                raise Gone
            if writable:
                self._pass_on()
            if time.monotonic() >= next_tick:
                next_tick = time.monotonic() + 1
                self._resize()
                self.tick()

    def _unread(self) -> bool:
        """Return whether keys wait for the debugger."""
        return bool(self._pending or any(fcntl.ioctl(self._slave, termios.FIONREAD, bytes(4))))

    def _output(self) -> bytes | None:
        try:
            return os.read(self._master, _CHUNK) or None
        except BlockingIOError:
            return b""
        except OSError:  # EIO: nobody has the terminal open
            return None

    def _typed(self, keys: bytes) -> None:
        keys, leave, _ = keys.partition(_LEAVE)
        self._resize()
        if (after := self._interrupted(keys)) is not None:
            self._pending, keys = b"", after  # as a terminal does: what was typed before is void
        self._pending += keys
        self._pass_on()
        if leave:
            raise Gone

    def _interrupted(self, keys: bytes) -> bytes | None:
        """Send this process a SIGINT for a Ctrl-C; return the keys after it, None without one.

        The terminal has no process group to do it. It never sees the key: it would throw away
        what is printed meanwhile, the next prompt too.
        """
        try:
            _, _, _, local, _, _, special = termios.tcgetattr(self._master)
        except termios.error:
            return None
        if not local & termios.ISIG or special[termios.VINTR] not in keys:
            return None
        with contextlib.suppress(termios.error):
            termios.tcflush(self._slave, termios.TCIFLUSH)
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGINT)
        return keys.rpartition(special[termios.VINTR])[2]

    def _pass_on(self) -> None:
        try:
            self._pending = self._pending[os.write(self._master, self._pending) :]
        except BlockingIOError:
            return
        except OSError:
            self._pending = b""

    def _resize(self) -> None:
        rows, columns = self._far.size
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self._master, termios.TIOCGWINSZ, bytes(8))
            if struct.unpack("HHHH", size)[:2] != (rows, columns):
                new = struct.pack("HHHH", rows, columns, 0, 0)
                fcntl.ioctl(self._master, termios.TIOCSWINSZ, new)
                main = threading.main_thread().ident
                if main is not None:
                    signal.pthread_kill(main, signal.SIGWINCH)  # ignored where nobody handles it


def _copy(number: int) -> int | None:
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:  # closed
        return None


_taken: list[Console] = []


def _let_go() -> None:
    for console in _taken:
        console.in_child()


os.register_at_fork(after_in_child=_let_go)


class OwnTerminal:
    """The terminal that this rank was started from, as the far end."""

    def __init__(self, number: int) -> None:
        self.term: str | None = None
        self.no_more_keys = False
        self._number = os.dup(number)
        self._modes = raw(self._number)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return window(self._number)

    def fileno(self) -> int:
        """Return the descriptor that keys come from."""
        return self._number

    def keys(self) -> bytes:
        """Return what was typed."""
        try:
            data = os.read(self._number, _CHUNK)
        except OSError:
            raise Gone from None
        if not data:
            raise Gone
        return data

    def show(self, data: bytes) -> None:
        """Show bytes; what a line's end is, this terminal says itself."""
        data = data.replace(b"\r\n", b"\n")
        try:
            while data:
                data = data[os.write(self._number, data) :]
        except OSError:
            raise Gone from None

    def close(self, words: str) -> None:
        """Leave the terminal as it was."""
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._number, termios.TCSADRAIN, self._modes)
        self.show(f"{words}\n".encode())
        os.close(self._number)

    def drop(self) -> None:
        """Close our copy."""
        os.close(self._number)


def raw(number: int, *, output: bool = False) -> list[Any]:
    """Have a terminal give every key as it is typed; return the modes that it had.

    How it treats output stays but with `output`: other ranks may write to the same terminal.
    """
    before = termios.tcgetattr(number)
    modes = termios.tcgetattr(number)
    modes[0] &= ~(termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON)
    if output:
        modes[1] &= ~termios.OPOST
    modes[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
    modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
    termios.tcsetattr(number, termios.TCSADRAIN, modes)
    return before


def window(number: int) -> tuple[int, int]:
    """Return rows and columns of a terminal; 24 by 80 where it does not say."""
    try:
        size = os.get_terminal_size(number)
    except OSError:
        return 24, 80
    return size.lines or 24, size.columns or 80


def own_terminal() -> int | None:
    """Return the descriptor of a terminal that this process may read from, or None.

    Workers of torchrun have the terminal without its session; a job in the background of a shell
    has it too, and would be stopped if it read there.
    """
    if not os.isatty(0):
        return None
    try:
        if os.tcgetpgrp(0) != os.getpgrp():
            return None
    except OSError:  # not our session's terminal: nobody stops us
        pass
    return 0
