"""What goes over the socket between a breakpoint and ``postmortem attach``.

The token never does: each side proves that it knows it (HMAC-SHA256 over both sides' random
numbers), so that neither an eavesdropper nor a program that took over the port learns it. After
that come frames: a letter, a length, the bytes. They are not encrypted.
"""

import hmac
import socket
import struct
import time

GREETING = b"postmortem breakpoint 1\n"
NONCE_BYTES = 16
PROOF_BYTES = 32
HEAD = struct.Struct(">cI")
LARGEST = 1 << 16

DATA, WINDOW, TERM, END = b"D", b"W", b"T", b"E"
"""Bytes of the terminal; its rows and columns; its name (TERM); the last words of the breakpoint,
or that no more keys will come."""

WELCOME, WRONG, BUSY = b"Y", b"N", b"B"
"""Answers to a proof: come in, the token is wrong, another one is attached."""

SIZE = struct.Struct(">HH")


class BrokenWire(Exception):
    """The other side has gone, or does not speak this."""


def proof(token: bytes, side: bytes, theirs: bytes, ours: bytes) -> bytes:
    """Return what shows that `side` knows the token."""
    return hmac.digest(token, side + b"\0" + theirs + ours, "sha256")


def same(one: bytes, other: bytes) -> bool:
    """Compare in a time that does not tell how much is alike."""
    return hmac.compare_digest(one, other)


def receive(link: socket.socket, count: int, until: float | None = None) -> bytes:
    """Return exactly `count` bytes, all there at `until` (time.monotonic()); raises BrokenWire."""
    data = b""
    while len(data) < count:
        try:
            if until is not None:
                link.settimeout(max(0.001, until - time.monotonic()))
            part = link.recv(count - len(data))
        except OSError as error:
            raise BrokenWire(str(error)) from None
        if not part:
            raise BrokenWire("the connection was closed")
        data += part
    return data


def send(link: socket.socket, kind: bytes, data: bytes) -> None:
    """Send bytes in frames; raises BrokenWire."""
    try:
        for start in range(0, len(data), LARGEST) or (0,):
            part = data[start : start + LARGEST]
            link.sendall(HEAD.pack(kind, len(part)) + part)
    except OSError as error:
        raise BrokenWire(str(error)) from None


class Frames:
    """Takes frames out of a stream of bytes, as they come."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the frames that are whole now; raises BrokenWire on a length that cannot be."""
        self._rest += data
        found = []
        while len(self._rest) >= HEAD.size:
            kind, count = HEAD.unpack_from(self._rest)
            if count > LARGEST:
                raise BrokenWire(f"a frame of {count} bytes")
            if len(self._rest) < HEAD.size + count:
                break
            found.append((kind, self._rest[HEAD.size : HEAD.size + count]))
            self._rest = self._rest[HEAD.size + count :]
        return found


def stay_alive(link: socket.socket) -> None:
    """Have the kernel notice within a minute that the other machine is gone."""
    options = (("SO_KEEPALIVE", 1), ("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))
    for name, value in options:
        level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
        link.setsockopt(level, getattr(socket, name), value)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
