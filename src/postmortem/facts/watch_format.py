"""The ring file of ``postmortem watch``: docs/watch.md describes it for other programs."""

import struct
import zlib

MAGIC = b"PMWATCH1"
HEADER_BYTES = 4096
RECORD_BYTES = 128
HEADER = struct.Struct("<8sIIdd")
"""Magic, bytes of a record, number of records, when it began, seconds between looks."""

HEAD = struct.Struct("<IHHQdI")
"""Check (CRC-32 of the rest), kind, bytes of text, number of the record, time, pid."""
NUMBERS = struct.Struct("<10q")
SAMPLE, NAME, CEILING, END, GONE = 1, 2, 3, 4, 5
_CHECKED = RECORD_BYTES - 4


OF_A_CEILING = 1 << 31
"""Added to the number of a limit where a record has a pid."""

Record = tuple[int, int, float, int, tuple[int, ...], str]
"""Kind, number, time, pid, numbers, text."""


def pack(
    kind: int, number: int, at: float, pid: int, numbers: tuple[int, ...] = (), text: str = ""
) -> bytes:
    """Return one record, of numbers or of text; text is cut where it is too long."""
    words = text.encode("utf-8", "replace")[: RECORD_BYTES - HEAD.size]
    body = NUMBERS.pack(*numbers, *(0,) * (10 - len(numbers))) if numbers else words
    rest = (HEAD.pack(0, kind, len(words), number, at, pid)[4:] + body).ljust(_CHECKED, b"\0")
    return struct.pack("<I", zlib.crc32(rest)) + rest


def unpack(data: bytes) -> Record | None:
    """Return what a record says; None for one that is empty, torn or foreign."""
    if len(data) != RECORD_BYTES:
        return None
    check, kind, length, number, at, pid = HEAD.unpack_from(data)
    if number == 0 or zlib.crc32(data[4:]) != check or not SAMPLE <= kind <= GONE:
        return None
    if kind in (SAMPLE, CEILING):
        return kind, number, at, pid, NUMBERS.unpack_from(data, HEAD.size), ""
    text = data[HEAD.size : HEAD.size + length].decode("utf-8", "replace")
    return kind, number, at, pid, (), text
