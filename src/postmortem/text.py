"""Numbers in words: sizes, counts, ranges."""

import functools
import re
from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size(count: int) -> str:
    """Return a number of bytes as people say it: ``5.2 GiB``."""
    value = float(count)
    for unit in _UNITS:
        if abs(value) < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    if unit == "B":
        return f"{count} B"
    return f"{value:.1f} {unit}" if abs(value) < 100 else f"{value:.0f} {unit}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return ``1 frame`` or ``2,051 frames``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def shell_word(text: str) -> str:
    """Return a path or name as a word of a shell command: what evidence names is never run.

    A name that begins like an option gets ``./`` before it.
    """
    if text.startswith("-"):
        text = f"./{text}"
    # As shlex.quote, which would cost its import; what is plain is most of what comes.
    if text and text.isascii() and text.translate(_PLAIN) == "":
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


_PLAIN = dict.fromkeys(
    map(ord, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_-+=:,./")
)


Pointer = int
"""A place in memory: an integer in facts, ``"0x00007f1e2c0013a0"`` in JSON."""


def address(value: int) -> str:
    """Return an address in the 16 digits that the JSON schema promises."""
    return f"0x{value:016x}"


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, marked at its end where it is cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def some(items: Sequence[object], most: int = 8) -> str:
    """Return the first few of many, and how many more there are."""
    return ", ".join(str(item) for item in items[:most]) + more(len(items) - most)


def more(left: int, form: str = " and {} more") -> str:
    """Return how many are left out, in a form of words; nothing where none is."""
    return form.format(f"{left:,}") if left > 0 else ""


def without_numbers(text: str) -> str:
    """Return a text with its numbers, addresses and bars as ``#``: what differs between ranks."""
    return _numbers().sub("#", text)


@functools.cache
def _numbers() -> re.Pattern[str]:
    return re.compile(r"0x[0-9a-fA-F]+|\d+|[\u2580-\u259f]+ *")


def without_folders(text: str) -> str:
    """Return a text in which files of source, with their lines, stand without their folders."""
    return re.sub(r"/\S*/([^\s/]+:\d)", r"\1", text)


def parse_size(text: str, least: int = 1 << 20) -> int:
    """Return the bytes of ``100G``, ``512M``, ``1.5TiB``; raises ValueError, also below `least`."""
    units = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
    word = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = word[-1:] if word[-1:] in "KMGT" else ""
    number = float(word.removesuffix(unit))
    size = int(number * 1024 ** units[unit])
    if size < least or size > 1 << 60:
        raise ValueError(text)
    return size


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, without its full stop."""
    return text.split(". ", 1)[0].rstrip(".")
