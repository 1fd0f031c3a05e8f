"""The layout of flight files, version 1; docs/flight-file.md describes it.

All numbers are little-endian. A file is a header of 256 bytes, a table of names, and a ring of
records of 128 bytes. What is written once has a checksum behind it (CRC-32 of zlib).
"""

from struct import Struct

MAGIC = b"PMFLIGHT"
VERSION = 1

HEADER = Struct("<8sIIIIQQQiiId64sI")
"""Magic, version, header bytes, record bytes, records that fit, offset of names, bytes of names,

offset of records, rank, world size, pid, start (seconds since 1970), host, checksum of all that.
"""
HEADER_BYTES = 256
STATE_OFFSET = 192
STATE = Struct("<IIdI")
"""How it ended, batch, time of the last change, checksum of what precedes."""

NAME = Struct("<HI")
"""Bytes and checksum of a name; then the name. The first that is not right ends the table."""

RECORD = Struct("<QdIIIIBBHIQQQQQqddddI")
"""Number (from 1), time, batch, frame, names of module and cell, kind, data type, flags,

saturated, numel, NaN, Inf, zeros, subnormals, first bad index or -1, least |x|, largest |x|, least
not zero, largest finite, checksum of what precedes.
"""
RECORD_BYTES = 128
NO_NAME = 0xFFFFFFFF
SEPARATOR = "\x1f"
"""Between a module and its class, and between a cell and its note."""

ENDINGS = ("", "finished", "stopped", "failed")
"""Of `STATE`: still running, left in order, numbers went bad, another exception."""

DTYPES = (
    "", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "complex32",
    "complex64", "complex128", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64", "float",
)  # fmt: skip

MASKED, NO_NUMBERS, OPENS_BATCH, HAS_SATURATED = 1, 2, 4, 8
"""Flags of a record: infinities of a mask; only a name; first of its batch; `saturated` counts."""
PHASE_SHIFT = 8
"""The phase of the frame stands in the flags from this bit on."""
