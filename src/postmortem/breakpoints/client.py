"""The near end: finds a breakpoint, proves to know its token, and is its terminal."""

import getpass
import json
import os
import secrets
import select
import signal
import socket
import sys
import termios
import time
from typing import Any

from postmortem.breakpoints import runtime, wire
from postmortem.breakpoints.console import raw, window
from postmortem.breakpoints.door import TOKEN_VARIABLE, join_address, split_address
from postmortem.breakpoints.place import host_name, is_gone
from postmortem.errors import EvidenceError
from postmortem.records import record

_CONNECT_SECONDS = 10.0
_CHUNK = 1 << 14


@record
class Announcement:
    """A breakpoint that waits, as its rank announced it."""

    host: str
    address: str
    token: str
    rank: int
    world_size: int
    job: str | None
    pid: int
    who: str
    where: str

    @property
    def words(self) -> str:
        """One line about it."""
        job = f", job {self.job}" if self.job else ""
        return f"rank {self.rank} on {self.host} at {self.where} (pid {self.pid}{job})"


def waiting() -> list[Announcement]:
    """Return the breakpoints of this user that wait; what dead processes left is removed."""
    path = runtime.folder_path()
    if not os.path.lexists(path):
        return []
    path = runtime.folder()
    found = []
    for name in sorted(os.listdir(path)):  # noqa: PTH208
        if not name.startswith("rank") or not name.endswith(".json"):
            continue
        one = _announcement(runtime.read(f"{path}/{name}") or "")
        if one is None:
            continue
        if is_gone(one.who):
            runtime.remove(f"{path}/{name}")
            continue
        found.append(one)
    return sorted(found, key=lambda one: (one.rank, one.pid))


def _announcement(text: str) -> Announcement | None:
    try:
        words = json.loads(text)
    except ValueError:
        return None
    kinds = Announcement.__annotations__
    if not isinstance(words, dict) or not all(name in words for name in kinds):
        return None
    numbers = ("rank", "world_size", "pid")
    for name in kinds:
        wanted = int if name in numbers else str
        if not isinstance(words[name], wanted) and not (name == "job" and words[name] is None):
            return None
    return Announcement(**{name: words[name] for name in kinds})


def choose(
    address: str | None, rank: int | None, job: str | None, wait_seconds: float
) -> tuple[str, str, str]:
    """Return address, token and a name of the breakpoint that is meant; raises EvidenceError."""
    try:
        if address is not None and split_address(address)[1] == 0:
            raise ValueError(f"{address!r} has no port")
    except ValueError as error:
        raise EvidenceError("attach", str(error), hint="HOST:PORT, as the rank printed") from None
    end = time.monotonic() + wait_seconds
    while True:
        found = [
            one
            for one in waiting()
            if (rank is None or one.rank == rank)
            and (job is None or one.job == job)
            and (address is None or _same(one.address, address))
        ]
        if len(found) == 1:
            return address or found[0].address, found[0].token, found[0].words
        if found or address is not None or time.monotonic() >= end:
            break
        time.sleep(0.2)
    if address is not None:
        return address, _token_for(address), address
    if found:
        rows = "; ".join(f"{one.words}: {one.address}" for one in found)
        hint = "name one: postmortem attach --rank N, or its address"
        raise EvidenceError("attach", f"{len(found)} breakpoints wait: {rows}", hint=hint)
    what = f"no breakpoint waits on {host_name()}"
    if rank is not None or job is not None:
        what += " that is of this rank or job"
    hint = "a rank that stops prints its host and address; --wait 60 waits for one"
    raise EvidenceError("attach", what, hint=hint)


def _same(one: str, other: str) -> bool:
    try:
        mine, theirs = split_address(one), split_address(other)
    except ValueError:
        return False
    everywhere = mine[0] in ("0.0.0.0", "::")
    return mine[1] == theirs[1] and (everywhere or _ip(mine[0]) == _ip(theirs[0]))


def _ip(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host


def _token_for(address: str) -> str:
    if token := os.environ.get(TOKEN_VARIABLE):
        return token
    if sys.stdin.isatty():
        return getpass.getpass(f"token of {address}: ")
    raise EvidenceError(
        address,
        "its token is not known here",
        hint=f"attach on the rank's own host, or set {TOKEN_VARIABLE} for the job and here, "
        f"or {runtime.VARIABLE} to a folder that both see",
    )


def connect(address: str, token: str) -> socket.socket:
    """Return a connection on which both sides have shown that they know the token."""
    host, port = split_address(address)
    host = "127.0.0.1" if host == "0.0.0.0" else host
    where = join_address(host, port)
    try:
        link = socket.create_connection((host, port), _CONNECT_SECONDS)
    except OSError as error:
        raise EvidenceError(where, error.strerror or str(error), hint=_GONE) from None
    try:
        _shake(link, token.encode(), where)
    except wire.BrokenWire as error:
        link.close()
        raise EvidenceError(where, f"no breakpoint answers ({error})", hint=_GONE) from None
    except EvidenceError:
        link.close()
        raise
    wire.stay_alive(link)
    link.settimeout(None)
    return link


_GONE = "the rank may have gone on, or listen on loopback of its own host alone (attach there)"


def _shake(link: socket.socket, token: bytes, where: str) -> None:
    """Prove to each other that both know the token; nothing of the other side is shown before."""
    until = time.monotonic() + _CONNECT_SECONDS  # of all of it: one could send a byte a time
    if wire.receive(link, len(wire.GREETING), until) != wire.GREETING:
        raise wire.BrokenWire("it speaks another protocol")
    theirs = wire.receive(link, wire.NONCE_BYTES, until)
    ours = secrets.token_bytes(wire.NONCE_BYTES)
    try:
        link.sendall(ours + wire.proof(token, b"attach", theirs, ours))
    except OSError as error:
        raise wire.BrokenWire(str(error)) from None
    answer = wire.receive(link, 1, until)
    if answer == wire.BUSY:
        raise EvidenceError(where, "somebody is attached already", hint="one terminal at a time")
    if answer == wire.WRONG:
        raise EvidenceError(where, "the token is wrong", hint=f"see {TOKEN_VARIABLE}")
    shown = wire.receive(link, wire.PROOF_BYTES, until)
    expected = wire.proof(token, b"breakpoint", ours, theirs)
    if answer != wire.WELCOME or not wire.same(shown, expected):
        raise wire.BrokenWire("it does not know the token itself")


def converse(link: socket.socket) -> str | None:
    """Be the terminal until the breakpoint ends; return its last words, None without any."""
    terminal = os.isatty(0)
    out = 1 if os.isatty(1) else 0
    modes = raw(0, output=True) if terminal else None
    before: Any = None
    try:
        wire.send(link, wire.WINDOW, wire.SIZE.pack(*window(out)))
        wire.send(link, wire.TERM, os.environ.get("TERM", "dumb").encode())

        def resized(*_: object) -> None:
            wire.send(link, wire.WINDOW, wire.SIZE.pack(*window(out)))

        before = signal.signal(signal.SIGWINCH, resized)
        return _loop(link)
    except wire.BrokenWire:
        return None
    finally:
        if before is not None:
            signal.signal(signal.SIGWINCH, before)
        if modes is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, modes)
        link.close()


def _loop(link: socket.socket) -> str | None:
    frames = wire.Frames()
    sources: list[Any] = [0, link]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if 0 in ready:
            keys = os.read(0, _CHUNK)
            if not keys:  # a script's commands are all sent
                sources.remove(0)
            wire.send(link, wire.DATA if keys else wire.END, keys)
        if link in ready:
            try:
                data = link.recv(_CHUNK)
            except OSError as error:
                raise wire.BrokenWire(str(error)) from None
            if not data:
                return None
            for kind, body in frames.feed(data):
                if kind == wire.DATA:
                    _show(body)
                elif kind == wire.END:
                    return body.decode(errors="replace")


def _show(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
