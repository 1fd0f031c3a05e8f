"""One TCP connection, and how it ended if it came to none."""

import asyncio
import errno
import os
import socket
import time

from postmortem.facts.net import Met

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_NO_WAY = (
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.EACCES,
    errno.EPERM,
    errno.EINVAL,  # a blackhole route of our own
    errno.ENETDOWN,
    errno.EHOSTDOWN,
    errno.EADDRNOTAVAIL,
)


class NoConnection(Exception):
    """How a connection did not come about."""

    def __init__(self, met: Met, detail: str) -> None:
        super().__init__(detail)
        self.met = met
        self.detail = detail


async def connect(
    address: str,
    port: int,
    seconds: float,
    *,
    source: str | None = None,
    segment: int | None = None,
    limit: int = 1 << 16,
) -> tuple[Streams, float]:
    """Return a connection and the seconds that it took; raises NoConnection.

    `source` is our own address to speak from, `segment` the largest TCP segment in either
    direction.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    raw = socket.socket(family, socket.SOCK_STREAM)
    began = time.monotonic()
    try:
        raw.setblocking(False)
        if segment is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
        if source is not None:
            _bind(raw, source)
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().sock_connect(raw, (address, port))
        took = time.monotonic() - began
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return await asyncio.open_connection(sock=raw, limit=limit), took
    except BaseException as error:
        raw.close()
        if isinstance(error, (OSError, TimeoutError)):
            raise no_connection(error, seconds) from None
        raise


def _bind(raw: socket.socket, source: str) -> None:
    try:
        raw.bind((source, 0))
    except OSError as error:
        raise NoConnection(Met.NO_SOURCE, f"{source}: {error.strerror}") from None


def no_connection(error: OSError | TimeoutError, seconds: float) -> NoConnection:
    """Return what an error of connect(2) says of the way."""
    number = getattr(error, "errno", None)
    if isinstance(error, TimeoutError) and number is None:
        return NoConnection(Met.DROPPED, f"no answer within {seconds:g} s")
    if number == errno.ETIMEDOUT:
        return NoConnection(Met.DROPPED, "no answer")
    detail = os.strerror(number) if number is not None else str(error)  # asyncio adds to strerror
    if isinstance(error, ConnectionRefusedError):
        return NoConnection(Met.REFUSED, detail)
    if isinstance(error, ConnectionError):
        return NoConnection(Met.RESET, detail)
    if number in _NO_WAY:
        return NoConnection(Met.UNREACHABLE, detail)
    return NoConnection(Met.UNREACHABLE, f"{detail} (errno {number})")


def close(streams: Streams) -> None:
    """Let go of a connection at once: nothing more is sent, nothing lingers."""
    streams[1].transport.abort()
