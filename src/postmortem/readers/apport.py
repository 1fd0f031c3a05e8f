"""The core inside of apport's crash report (Ubuntu: /var/crash/NAME.UID.crash).

The report is text in the form of Debian's control files; a value that does not fit into it is a
gzip stream in lines of base64, each line encoded by itself (apport's problem_report.py, write()).
"""

from typing import BinaryIO

from postmortem.readers.formats import HEAD_BYTES

_START = b"ProblemType:"
_KEY = b"CoreDump: base64"
_MOST_BEFORE = 64 << 20
"""Bytes of other fields that are read to find the core; logs may be attached before it."""
_LONGEST_LINE = 64 << 20


def is_report(head: bytes) -> bool:
    """Return whether a file that begins so is a crash report of apport."""
    return head.startswith(_START)


def is_whole_without_core(head: bytes) -> bool:
    """Return whether a report that begins so is all there, and has no core: it is a text."""
    return len(head) < HEAD_BYTES and b"\nCoreDump:" not in head


class CoreOfReport:
    """The gzip stream of the core in a report, with the `read()` of a file."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._ready = b""
        self._ended = False

    def find(self) -> bool:
        """Go to the core; return whether the report has one."""
        self._stream.seek(0)
        taken = 0
        while taken < _MOST_BEFORE:
            line = self._stream.readline(_LONGEST_LINE)
            taken += len(line)
            if not line:
                return False
            if line.rstrip() == _KEY:
                return True
        return False

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes of the stream; damage ends it, as a cut does."""
        import binascii  # late: few cores come in such a report

        while len(self._ready) < size and not self._ended:
            line = self._stream.readline(_LONGEST_LINE)
            if not line.startswith(b" "):  # the next field, or the end of the report
                self._ended = True
                break
            try:
                self._ready += binascii.a2b_base64(line)
            except binascii.Error:
                self._ended = True
        piece, self._ready = self._ready[:size], self._ready[size:]
        return piece
