"""The socket through which Python processes tell that they raised, and hear when they may go on."""

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")


class Channel:
    """The supervisor's end of it."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.setblocking(False)
        self._socket.bind(str(path))
        self._holders: list[tuple[str | bytes, int]] = []

    def fileno(self) -> int:
        """Return its descriptor; -1 when it is closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()

    def hear(self) -> Iterator[tuple[int, bytes, str | bytes | None]]:
        """Return what has come: from which pid (0: nobody can tell), what, and where to answer."""
        for _ in range(64):
            try:
                data, extra, _, sender = self._socket.recvmsg(8192, 256)
            except OSError:
                return
            pid = next((_CREDENTIALS.unpack(d[:12])[0] for _, kind, d in extra if kind == 2), 0)
            yield pid, data, sender

    def hold(self, sender: str | bytes, pid: int) -> None:
        """Have a process wait until the next `release`."""
        self._holders.append((sender, pid))
        self._answer(sender, "wait")

    def release(self, words: Callable[[int], str]) -> None:
        """Let those go on that wait, each with what `words` has for its pid."""
        if self._socket.fileno() < 0:
            return
        for holder, pid in self._holders:
            self._answer(holder, f"go\n{words(pid)}")
        self._holders.clear()

    def _answer(self, holder: str | bytes, words: str) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendto(words.encode("utf-8", "replace")[:4000], holder)
