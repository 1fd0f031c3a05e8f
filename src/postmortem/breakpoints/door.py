"""The socket at which a breakpoint waits for ``postmortem attach``: one guest, with the token."""

import contextlib
import json
import os
import secrets
import socket
import struct
import threading
import time

from postmortem.breakpoints import runtime, wire
from postmortem.breakpoints.console import Gone
from postmortem.breakpoints.place import Place, identity, job

_HANDSHAKE_SECONDS = 10.0
_AT_ONCE = 16
"""Connections that may be at their handshake; more are closed at once."""

TOKEN_VARIABLE = "POSTMORTEM_TOKEN"
LISTEN_VARIABLE = "POSTMORTEM_LISTEN"
_SHORTEST_TOKEN = 16


class Door:
    """Listens until one guest is in; then it tells all others that somebody is."""

    def __init__(self, where: Place, spot: str, listen: str | None = None) -> None:
        """`listen` is an address of this host, with a port or without; raises OSError."""
        asked = listen or os.environ.get(LISTEN_VARIABLE) or "127.0.0.1"
        host, port = split_address(asked)
        given = os.environ.get(TOKEN_VARIABLE, "")
        if given and len(given) < _SHORTEST_TOKEN:
            raise ValueError(f"{TOKEN_VARIABLE} is shorter than {_SHORTEST_TOKEN} characters")
        self._token = given or secrets.token_hex(16)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=_AT_ONCE)
        self.address = join_address(host, self._socket.getsockname()[1])
        self.guest: Guest | None = None
        self.came = threading.Event()
        self._places = threading.Semaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._open = True
        try:
            self._file = self._announce(where, spot)
        except BaseException:
            self._socket.close()
            raise
        _doors.append(self)
        threading.Thread(target=self._listen, name="postmortem-door", daemon=True).start()

    def _announce(self, where: Place, spot: str) -> str:
        path = f"{runtime.folder()}/rank{where.rank}-{where.host}-{os.getpid()}.json"
        runtime.remove(path)
        words = {
            "format": 1,
            "host": where.host,
            "address": self.address,
            "token": self._token,
            "rank": where.rank,
            "world_size": where.world_size,
            "job": job(),
            "pid": os.getpid(),
            "who": identity(),
            "where": spot,
        }
        runtime.write(path, json.dumps(words))
        return path

    def close(self) -> None:
        """Listen no longer, and remove the announcement."""
        with self._lock:
            if not self._open:
                return
            self._open = False
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
        self._socket.close()
        runtime.remove(self._file)
        with contextlib.suppress(ValueError):
            _doors.remove(self)

    def in_child(self) -> None:
        """In a child of a fork: close our copy, or the port would outlive the rank."""
        self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:
                return
            if not self._places.acquire(blocking=False):
                link.close()
                continue
            threading.Thread(target=self._meet, args=(link,), daemon=True).start()

    def _meet(self, link: socket.socket) -> None:
        try:
            link.settimeout(_HANDSHAKE_SECONDS)
            self._handshake(link)
        except (wire.BrokenWire, OSError):
            link.close()
        finally:
            self._places.release()

    def _handshake(self, link: socket.socket) -> None:
        token = self._token.encode()
        ours = secrets.token_bytes(wire.NONCE_BYTES)
        link.sendall(wire.GREETING + ours)
        until = time.monotonic() + _HANDSHAKE_SECONDS  # of all of it: one could send a byte a time
        theirs = wire.receive(link, wire.NONCE_BYTES, until)
        answer = wire.receive(link, wire.PROOF_BYTES, until)
        if not wire.same(answer, wire.proof(token, b"attach", ours, theirs)):
            link.sendall(wire.WRONG)
            link.close()
            return
        with self._lock:
            busy = self.guest is not None or not self._open
            if not busy:
                self.guest = Guest(link)
        if busy:
            link.sendall(wire.BUSY)
            link.close()
            return
        link.sendall(wire.WELCOME + wire.proof(token, b"breakpoint", theirs, ours))
        wire.stay_alive(link)
        link.settimeout(None)
        self.came.set()


class Guest:
    """The connection of an attached terminal, as the far end of a console."""

    def __init__(self, link: socket.socket) -> None:
        self.term: str | None = None
        self.size = (24, 80)
        self.no_more_keys = False
        self._link = link
        self._frames = wire.Frames()

    def introduce(self) -> bytes:
        """Wait for the name and size of the guest's terminal, which come first."""
        typed = b""
        while self.term is None:
            typed += self.keys()
        return typed

    def fileno(self) -> int:
        """Return the socket."""
        return self._link.fileno()

    def keys(self) -> bytes:
        """Return what was typed; sizes are kept on the way."""
        try:
            data = self._link.recv(1 << 14)
            if not data:
                raise Gone
            typed = b""
            for kind, body in self._frames.feed(data):
                if kind == wire.DATA:
                    typed += body
                elif kind == wire.WINDOW and len(body) == wire.SIZE.size:
                    self.size = wire.SIZE.unpack(body)
                elif kind == wire.END:
                    self.no_more_keys = True
                elif kind == wire.TERM:
                    self.term = _term(body)
        except (OSError, wire.BrokenWire, struct.error):
            raise Gone from None
        return typed

    def show(self, data: bytes) -> None:
        """Show bytes."""
        try:
            wire.send(self._link, wire.DATA, data)
        except wire.BrokenWire:
            raise Gone from None

    def close(self, words: str) -> None:
        """Say the last words and close the connection."""
        with contextlib.suppress(wire.BrokenWire):
            wire.send(self._link, wire.END, words.encode())
        self._link.close()

    def drop(self) -> None:
        """Close our copy; the connection lives on in the parent."""
        os.close(self._link.detach())


def _term(body: bytes) -> str:
    name = body.decode("ascii", "replace")[:64]
    return name if name and name.replace("-", "").replace(".", "").isalnum() else "dumb"


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST``, ``HOST:PORT`` or ``[V6]:PORT``; raises ValueError."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not an address")
    elif text.count(":") > 1:
        return text, 0
    else:
        host, _, port = text.partition(":")
    if port and (not port.isdecimal() or int(port) > 65_535):
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host or "127.0.0.1", int(port or 0)


def join_address(host: str, port: int) -> str:
    """Return ``HOST:PORT``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_doors: list[Door] = []


def _close_copies() -> None:
    for door in _doors:
        door.in_child()
    _doors.clear()


os.register_at_fork(after_in_child=_close_copies)
