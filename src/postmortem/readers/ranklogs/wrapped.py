"""Logs of containers, whose lines are JSON objects that hold what a program wrote.

Docker keeps them so, and Fluentd, Fluent Bit and Cloud Logging hand them on so.
"""

import json
from collections.abc import Iterable, Iterator

_TEXTS = ("log", "textPayload")
"""Fields that hold what a program wrote, as it wrote it."""
_BESIDE = ("stream", "time", "timestamp", "kubernetes", "resource", "date")
"""Fields of who took it down."""
_FEWEST = 1


def is_wrapped(head: bytes) -> bool:
    """Return whether a file begins with such objects, in each whole line."""
    if not head.startswith(b"{"):
        return False
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()]
    return len(lines) >= _FEWEST and all(_text(line, sure=True) is not None for line in lines)


def unwrapped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what was written, a line for each line of the file; others are left as they are.

    An object that holds several lines is followed by them all.
    """
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        if lines:
            yield b"".join(map(_unwrapped, lines))
    if rest:
        yield _unwrapped(rest)


def _unwrapped(line: bytes) -> bytes:
    text = _text(line)
    return line + b"\n" if text is None else text + b"\n"


def _text(line: bytes, *, sure: bool = False) -> bytes | None:
    if not line.startswith(b"{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if sure and not any(key in found for key in _BESIDE):
        return None
    text = next((found[key] for key in _TEXTS if isinstance(found.get(key), str)), None)
    return None if text is None else text.rstrip("\r\n").encode("utf-8", "replace")
