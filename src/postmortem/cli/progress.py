"""Lines on standard error that say how far the work is."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Self, TextIO

from postmortem.text import size

WORTH_BYTES = 200 << 20
"""A smaller input is read before anybody has looked at the bar."""

_EVERY_SECONDS = 0.2
_CELLS = 24
ERASE = "\r\x1b[K"
"""Takes the line away on a terminal that obeys."""


class Line:
    """One line of a terminal that is written again, and is gone at the end; a context.

    Nothing is shown elsewhere, nor on a terminal that obeys nothing (``TERM=dumb``).
    """

    def __init__(
        self, stream: TextIO | None = None, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.obeyed = obeys(self._stream, environ)
        self._shown = False

    def show(self, words: str) -> None:
        """Write it anew, as much of it as the terminal is wide."""
        if self.obeyed:
            self._shown = True
            self.write(ERASE + words[: _columns(self._stream) - 1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self.write(ERASE)
            self._shown = False

    def write(self, text: str) -> None:
        """Write as it is; the terminal may be gone, which is no reason to lose the report."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self.obeyed = False


class Progress(Line):
    """Shows a bar while files are read, by where their descriptors stand.

    Nothing is shown while the files are small or of unknown size.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        environ: Mapping[str, str] = os.environ,
        *,
        worth: int = WORTH_BYTES,
    ) -> None:
        import threading  # late: `Status`, which reports on cores have, needs none

        super().__init__(stream, environ)
        self._worth = worth
        self._files: list[tuple[int, int]] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="progress", daemon=True)
        self._began = time.monotonic()

    def opened(self, descriptor: int, size: int | None) -> None:
        """Watch one more file; called by the reader."""
        if not self.obeyed or size is None:
            return
        with self._lock:
            # A descriptor of its own shares the offset, and stays when the reader closes its one.
            self._files.append((os.dup(descriptor), size))
        begun = self._thread.ident is not None
        if not begun and sum(size for _, size in self._files) >= self._worth:
            self._thread.start()

    def clear(self) -> None:
        """Take the bar away, and let go of the files."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        super().clear()
        for descriptor, _ in self._files:
            os.close(descriptor)
        self._files.clear()

    def _follow(self) -> None:
        while self.obeyed and not self._stop.wait(_EVERY_SECONDS):
            with self._lock:
                total = sum(size for _, size in self._files)
                done = sum(min(_offset(number), size) for number, size in self._files)
            self.show(bar(done, total, time.monotonic() - self._began))


class Status(Line):
    """Says in words what takes long.

    On a terminal in a line that is written again. Elsewhere (a log, a pipe) a line of its own,
    each after twice the time of the one before, so that a long wait does not fill a page.
    """

    def __init__(
        self, stream: TextIO | None = None, environ: Mapping[str, str] = os.environ
    ) -> None:
        super().__init__(stream, environ)
        self._next = 0.0
        self._wait = 1.0

    def __call__(self, words: str) -> None:
        """Show what is being done."""
        now = time.monotonic()
        if self.obeyed:
            self.show(f"postmortem: {words}")
        elif now >= self._next:
            self.write(f"postmortem: {words}\n")
            self._wait *= 2
            self._next = now + self._wait


def obeys(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Return whether a stream is a terminal on which a line can be written again."""
    try:
        terminal = stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
    return terminal and environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def _columns(stream: TextIO) -> int:
    try:
        return max(20, os.get_terminal_size(stream.fileno()).columns or 80)
    except (OSError, ValueError):
        return 80


def bar(done: int, total: int, seconds: float) -> str:
    """Return the line: a bar, the share, sizes, speed and the time that is left."""
    share = min(1.0, done / total) if total else 1.0
    full = int(share * _CELLS)
    words = f"[{'#' * full}{'.' * (_CELLS - full)}] {share:4.0%}  {size(done)} of {size(total)}"
    if seconds > 0.5 and done:
        speed = done / seconds
        words += f"  {size(int(speed))}/s"
        if share < 1:
            words += f"  {(total - done) / speed:.0f} s left"
    return words


def _offset(descriptor: int) -> int:
    try:
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return 0
