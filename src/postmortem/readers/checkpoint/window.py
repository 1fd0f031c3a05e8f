"""A part of a file as a file of its own: one archive of several, a pickle of bounded length."""

import io
import os
from typing import BinaryIO


class Window(io.RawIOBase):
    """Bytes `begin` to `begin + size` of a stream, which must not be read by others meanwhile."""

    def __init__(self, stream: BinaryIO, begin: int, size: int) -> None:
        self._stream = stream
        self._begin = begin
        self._size = max(0, size)
        self._at = 0

    def readable(self) -> bool:
        """Return True, as it is read only."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in the window."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position in the window; ValueError if it lies before it."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("negative seek position")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill a buffer as far as the window reaches."""
        wanted = min(len(buffer), max(0, self._size - self._at))
        if not wanted:
            return 0
        self._stream.seek(self._begin + self._at)
        content = self._stream.read(wanted)
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)
