"""Small and full packets in both directions: the side that listens, and the side that asks.

::

    listener  PMNET1 NONCE
    asker     {"proof", "from", "to", "large", "back", "flood"}
    listener  {"proof", "ok"} or {"refused": why}
    asker     `large` bytes              listener  {"got": n}
    listener  `large` bytes
    asker     `flood` bytes              listener  {"got": n, "seconds": s}
    listener  {"back": how}              a connection to the asker's own port `back`
"""

import asyncio
import errno
import os
import secrets
import socket
import time
from typing import Any

from postmortem.facts.net import Met
from postmortem.net.attempt import NoConnection, Streams, close, connect
from postmortem.net.wire import BANNER, LINE, WireError, encoded, in_tasks, proof, proves, read_line
from postmortem.records import record

LARGE = 32 << 10
_MOST_LARGE = 1 << 20
_MOST_FLOOD = 1 << 30
_MOST_AT_ONCE = 512
_SMALL_SEGMENT = 500
_BACKLOG = 4096


class Service:
    """What listens for probes, and answers those who know the token."""

    def __init__(self, token: str, number: int, seconds: float) -> None:
        self._token = token
        self._number = number
        self._seconds = seconds
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.answered: list[str] = []
        """Addresses of those that were answered to the end."""
        self.refused: list[str] = []
        self._last = 0.0

    def quiet_seconds(self) -> float | None:
        """Return for how long nobody has been connected; None: nobody ever was."""
        if self._open:
            return 0.0
        return time.monotonic() - self._last if self._last else None

    async def start(self, host: str | None = None, port: int = 0) -> None:
        """Listen at an address of ours, or at all of them; raises OSError."""
        raw = listening(host, port)
        self.port = raw.getsockname()[1]
        answer = in_tasks(self._answer, self._open, _MOST_AT_ONCE)
        self._server = await asyncio.start_server(answer, sock=raw, limit=LINE)

    async def stop(self) -> None:
        """Listen no more, and let go of whoever is connected."""
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str((writer.get_extra_info("peername") or ("?",))[0]).removeprefix("::ffff:")
        try:
            async with asyncio.timeout(self._seconds * 8):
                await self._talk(reader, writer, peer)
        except (WireError, OSError, EOFError, TimeoutError, asyncio.CancelledError):
            pass  # the asker knows what it saw; nothing of ours depends on it
        finally:
            self._last = time.monotonic()
            close((reader, writer))

    async def _talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str
    ) -> None:
        nonce = secrets.token_hex(16)
        writer.write(BANNER + nonce.encode() + b"\n")
        asked = await read_line(reader, self._seconds)
        if not proves(self._token, nonce, "asker", asked.get("proof")):
            self.refused.append(peer)
            writer.write(encoded({"refused": "another token"}))
            await writer.drain()
            return
        if asked.get("to") not in (None, self._number):
            writer.write(encoded({"refused": "another node", "number": self._number}))
            await writer.drain()
            return
        large = _number(asked, "large", _MOST_LARGE)
        flood = _number(asked, "flood", _MOST_FLOOD)
        back = _number(asked, "back", 65_535)
        answer = proof(self._token, str(asked.get("nonce")), "listener")
        writer.write(encoded({"ok": True, "proof": answer}))
        await writer.drain()
        if large:
            # The asker's patience decides: were ours over first, it would see a connection closed.
            await reader.readexactly(large)
            writer.write(encoded({"got": large}))
            writer.write(bytes(large))
            await writer.drain()
        if flood:
            began = time.monotonic()
            got = await _swallow(reader, flood)
            took = time.monotonic() - began
            writer.write(encoded({"got": got, "seconds": took}))
            await writer.drain()
        if back:
            writer.write(encoded({"back": (await _back(peer, back, self._seconds)).value}))
            await writer.drain()
        await reader.read(1)  # the asker closes
        self.answered.append(peer)


def listening(host: str | None, port: int) -> socket.socket:
    """Return a socket that listens at one address, or for all of this host; raises OSError."""
    if host is not None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
    return socket.create_server(("", port), backlog=_BACKLOG)


def _number(asked: dict[str, Any], name: str, most: int) -> int:
    value = asked.get(name, 0)
    if type(value) is not int or not 0 <= value <= most:
        raise WireError(f"asked for {name} = {value!r}")
    return value


async def _swallow(reader: asyncio.StreamReader, count: int) -> int:
    left = count
    while left:
        part = await reader.read(min(left, 1 << 18))
        if not part:
            break
        left -= len(part)
    return count - left


async def _back(peer: str, port: int, seconds: float) -> Met:
    """Connect to the asker itself, never to anybody else."""
    try:
        streams, _ = await connect(peer, port, seconds)
    except NoConnection as error:
        return error.met
    close(streams)
    return Met.OK


@record
class Answer:
    """What one probe met."""

    met: Met
    detail: str = ""
    seconds: float = 0.0
    round_trip: float | None = None
    back: Met | None = None
    flood_bytes_per_second: float = 0.0
    greeting: str | None = None


@record
class Question:
    """What a probe asks for."""

    token: str
    sender: int | None = None
    target: int | None = None
    large: int = LARGE
    back: int = 0
    flood: int = 0
    segment: int | None = None


async def ask(
    address: str, port: int, seconds: float, question: Question, source: str | None = None
) -> Answer:
    """Probe one address; every step has `seconds`."""
    try:
        streams, took = await connect(
            address, port, seconds, source=source, segment=question.segment
        )
    except NoConnection as error:
        return Answer(error.met, error.detail)
    try:
        return await _converse(streams, seconds, question, took)
    finally:
        close(streams)


async def _converse(streams: Streams, seconds: float, question: Question, took: float) -> Answer:
    reader, writer = streams
    stage = Met.SILENT
    try:
        async with asyncio.timeout(seconds):
            banner = await reader.readuntil(b"\n")
        if not banner.startswith(BANNER):
            return Answer(Met.FOREIGN, "another program", took, greeting=_shown(banner))
        nonce, ours = banner[len(BANNER) :].decode("ascii", "replace").strip(), os.urandom(16).hex()
        began = time.monotonic()
        message: dict[str, object] = {
            "proof": proof(question.token, nonce, "asker"),
            "nonce": ours,
            "from": question.sender,
            "to": question.target,
            "large": question.large,
            "back": question.back,
            "flood": question.flood,
        }
        writer.write(encoded(message))
        reply = await read_line(reader, seconds)
        round_trip = time.monotonic() - began
        if "refused" in reply:
            return Answer(Met.FOREIGN, _refusal(reply), took)
        if not proves(question.token, ours, "listener", reply.get("proof")):
            return Answer(Met.FOREIGN, "it cannot prove the token", took)
        if question.large:
            stage = Met.LARGE_OUT
            writer.write(bytes(question.large))
            await read_line(reader, seconds)
            stage = Met.LARGE_IN
            async with asyncio.timeout(seconds):
                await reader.readexactly(question.large)
        stage = Met.SILENT
        rate = await _flood(streams, seconds, question.flood) if question.flood else 0.0
        back = None
        if question.back:
            back = Met(str((await read_line(reader, 2 * seconds)).get("back")))
        return Answer(Met.OK, "", took, round_trip, back, rate)
    except TimeoutError:
        return Answer(stage, f"nothing more within {seconds:g} s", took)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        said = bytes(getattr(error, "partial", b""))
        if stage is Met.SILENT and said:
            return Answer(Met.FOREIGN, "another program", took, greeting=_shown(said))
        return Answer(Met.RESET, str(error) or "the connection was closed", took)
    except asyncio.LimitOverrunError:
        return Answer(Met.FOREIGN, "another program", took, greeting="a long line")
    except (WireError, ValueError) as error:
        return Answer(Met.FOREIGN, str(error), took)
    except OSError as error:
        return Answer(Met.RESET, error.strerror or str(error), took)


async def _flood(streams: Streams, seconds: float, count: int) -> float:
    reader, writer = streams
    chunk, left = bytes(1 << 17), count
    began = time.monotonic()
    async with asyncio.timeout(seconds * 4):
        while left > 0:
            part = chunk[: min(left, len(chunk))]
            writer.write(part)
            await writer.drain()
            left -= len(part)
    reply = await read_line(reader, seconds * 4)
    took = time.monotonic() - began
    if reply.get("got") != count:
        raise WireError(f"got {reply.get('got')!r} of {count} bytes")
    return count / max(took, 1e-6)


def _refusal(reply: dict[str, Any]) -> str:
    if reply["refused"] == "another node":
        return f"it is node {str(reply.get('number'))[:9]}"
    return "it has another token" if reply["refused"] == "another token" else "it refuses"


def _shown(said: bytes) -> str:
    return said[:60].decode("utf-8", "backslashreplace").strip()


async def largest_packet(
    address: str, port: int, seconds: float, question: Question, source: str | None, mtu: int
) -> int | None:
    """Return the largest IP packet, in bytes, that passes where full ones do not.

    None where small ones do not pass either: then it is not their size. The size of a packet is
    that of its TCP segment and 40 bytes of headers (60 in IPv6).
    """
    from postmortem.records import replace

    headers = 60 if ":" in address else 40

    async def passes(segment: int) -> bool:
        # TCP_MAXSEG counts the options too, of which timestamps take 12.
        asked = replace(question, segment=segment, flood=0, back=0)
        return (await ask(address, port, seconds, asked, source)).met is Met.OK

    low, high = _SMALL_SEGMENT, max(mtu - headers, _SMALL_SEGMENT + 1)
    if not await passes(low):
        return None
    while high - low > 8:
        middle = (low + high) // 2
        low, high = (middle, high) if await passes(middle) else (low, middle)
    return low + headers
