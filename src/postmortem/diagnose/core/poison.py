"""What a bad pointer's own value tells about where it came from."""

_REPEATED_BYTES = {
    0xFD: "the guard bytes that CPython's debug allocator puts around a block (PYTHONMALLOC=debug)",
    0xDD: "freed memory of CPython's debug allocator, or of a debug heap",
    0xDB: "freed memory of CPython's debug allocator (before 3.8)",
    0xCD: "fresh, never written memory of CPython's debug allocator",
    0xCB: "fresh, never written memory of CPython's debug allocator (before 3.8)",
    0xFB: "guard bytes of CPython's debug allocator (before 3.8)",
    0xFE: "memory that a debug allocator marks as freed",
    0xBE: "memory that AddressSanitizer marks as never written",
    0x5A: "junk that jemalloc puts into freed memory",
    0xA5: "junk that jemalloc puts into new memory",
    0xAA: "a fill of uninitialised memory (clang's pattern initialisation, MALLOC_PERTURB_)",
    0x6B: "a fill of freed memory",
    0xEF: "a fill of freed memory",
}
_MAGIC = (0xDEADBEEF, 0xBAADF00D, 0xFEEEFEEE, 0xCAFEBABE, 0xDEADC0DE, 0x0BADC0DE, 0xDEAD0000)


def pointer_hint(value: int) -> str | None:
    """Return what the value of a bad pointer looks like, in a sentence; None if like nothing.

    A small offset is allowed: a pattern plus the offset of a member still shows the pattern. The
    fills are those of CPython's Objects/obmalloc.c, jemalloc's `junk` and common debug heaps.
    """
    if value in (-1, 0xFFFF_FFFF_FFFF_FFFF):
        return "all bits are set: -1, as a failed mmap (MAP_FAILED) or shmat returns"
    if value >= 0xFFFF_FFFF_FFFF_F000:
        return f"it is {value - (1 << 64)}: a negative offset or error number used as a pointer"
    fill = _repeated(value)
    if fill is not None:
        return fill
    text = _as_text(value)
    if text is not None:
        return f"the pointer holds the text {text!r}: a string has overwritten it"
    for candidate in (value, value >> 32):
        for word in _MAGIC:
            if 0 <= (candidate & 0xFFFF_FFFF) - word < 0x1000:
                return f"it is based on {word:#x}, a marker that programs write on purpose"
    return None


def _repeated(value: int) -> str | None:
    top = value >> 16
    byte = top & 0xFF
    if byte in _REPEATED_BYTES and top == int.from_bytes(bytes([byte]) * 6):
        letter = f", or the letter {chr(byte)} of a text" if 0x20 < byte < 0x7F else ""
        return f"it is made of the byte {byte:#04x}: {_REPEATED_BYTES[byte]}{letter}"
    return None


def _as_text(value: int) -> str | None:
    """Return the text that fills at least six bytes of the value, little endian, else None."""
    raw = value.to_bytes(8, "little", signed=False) if 0 <= value < 1 << 64 else b""
    raw = raw.rstrip(b"\0")
    if len(raw) < 6 or not all(0x20 <= byte < 0x7F for byte in raw):
        return None
    text = raw.decode("ascii")
    useful = sum(character.isalnum() or character in " /._-" for character in text)
    return text if useful >= len(text) - 1 else None
