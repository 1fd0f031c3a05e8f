"""Lines of JSON over a connection, each bounded, and proofs that both sides have the token.

The token itself is never sent: each side proves that it knows it, over a number that the other
side has chosen. What comes in is checked against the records that it shall be.
"""

import asyncio
import hashlib
import hmac
import json
import types
import typing
from collections.abc import Callable, Coroutine
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from postmortem.records import is_record

T = TypeVar("T")

BANNER = b"PMNET1 "
LINE = 16 << 10
"""Bytes of a line before the other side has proved the token."""
LONG_LINE = 64 << 20
"""Bytes of a line after that: the addresses of some thousand nodes."""


class WireError(Exception):
    """The other side says what is not of this protocol."""


def proof(token: str, nonce: str, who: str) -> str:
    """Return what shows that `who` knows the token, for one nonce."""
    return hmac.new(token.encode(), f"{who}:{nonce}".encode(), hashlib.sha256).hexdigest()


def proves(token: str, nonce: str, who: str, claim: object) -> bool:
    """Return whether a claim is that proof, in constant time."""
    return isinstance(claim, str) and hmac.compare_digest(
        proof(token, nonce, who).encode(), claim.encode("utf-8", "replace")
    )


def encoded(message: dict[str, object]) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, default=plain, separators=(",", ":")).encode() + b"\n"


def plain(value: object) -> object:
    """Return a record as what JSON has."""
    if is_record(value):
        return vars(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")


def in_tasks(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]],
    tasks: set[asyncio.Task[None]],
    most: int,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
    """Return what a server calls for each connection: a task in `tasks` answers it, or nobody.

    A task that asyncio's streams make is told of on standard error if it is cancelled before it
    has begun.
    """

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(tasks) >= most:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(answer(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return connected


async def read_line(stream: asyncio.StreamReader, seconds: float) -> dict[str, Any]:
    """Read one message.

    Raises TimeoutError, ConnectionError where the other side has gone, WireError for rubbish.
    """
    try:
        async with asyncio.timeout(seconds):
            line = await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise WireError(f"said {error.partial[:60]!r}") from None
        raise ConnectionResetError("the connection was closed") from None
    except asyncio.LimitOverrunError:
        raise WireError("sent a line that is too long") from None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise WireError(f"said {line[:60]!r}") from None
    if not isinstance(found, dict):
        raise WireError(f"said {line[:60]!r}")
    return found


def decode(kind: type[T], value: object) -> T:
    """Return what JSON gave as `kind`: a record, a tuple, an enumeration or a plain value.

    Raises WireError where it is something else.
    """
    return typing.cast(T, _decode(kind, value))


def _decode(hint: Any, value: object) -> object:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(typing.get_args(hint), value)
    if origin is tuple:
        inner = typing.get_args(hint)
        if not isinstance(value, list) or len(inner) != 2 or inner[1] is not ...:
            raise WireError(f"sent {_short(value)} for a list")
        return tuple(_decode(inner[0], one) for one in value)
    if hint is type(None):
        if value is not None:
            raise WireError(f"sent {_short(value)} for nothing")
        return None
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        try:
            return hint(str(value))
        except ValueError:
            raise WireError(f"sent {_short(value)} for one of {', '.join(hint)}") from None
    if hint is float and type(value) is int:
        if abs(value) >= 1 << 64:
            raise WireError(f"sent {_short(value)} for float")
        return float(value)
    if hint in (str, int, float, bool):
        if type(value) is not hint:
            raise WireError(f"sent {_short(value)} for {hint.__name__}")
        return value[:4096] if isinstance(value, str) else value
    return _decode_record(hint, value)


def _decode_union(kinds: tuple[Any, ...], value: object) -> object:
    if value is None and type(None) in kinds:
        return None
    return _decode(next(one for one in kinds if one is not type(None)), value)


_hints = cache(typing.get_type_hints)  # what compiles each annotation anew


def _decode_record(kind: Any, value: object) -> object:
    hints = _hints(kind)
    if not isinstance(value, dict) or not value.keys() <= hints.keys():
        raise WireError(f"sent {_short(value)} for {kind.__name__}")
    try:
        return kind(**{name: _decode(hints[name], one) for name, one in value.items()})
    except TypeError:
        raise WireError(f"sent {_short(value)} for {kind.__name__}") from None


def _short(value: object) -> str:
    return repr(value)[:60]
