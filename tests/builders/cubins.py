"""Writers of GPU code (cubins): ELF files with one section for each kernel, names and lines.

`Cubin` is laid out by hand, with the line program of DWARF 3 that NVIDIA's assembler writes under
``-lineinfo`` and its extended opcode 0x90 for inlined calls. `relocate` moves a cubin of a real
assembler to addresses, as the driver does before it puts it into a dump.
"""

import struct
from dataclasses import dataclass, field

EM_CUDA = 190
ET_EXEC = 2
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_STRTAB, _SHT_RELA, _SHT_REL = 1, 2, 3, 4, 9
_ALLOC_EXEC = 6
_INLINED_CALL = 0x90


def uleb(value: int) -> bytes:
    """Return an unsigned LEB128."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def sleb(value: int) -> bytes:
    """Return a signed LEB128."""
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        done = (value == 0 and not low & 0x40) or (value == -1 and low & 0x40)
        out.append(low | (0 if done else 0x80))
        if done:
            return bytes(out)


@dataclass
class LineRow:
    """A row of a line program: from `offset` on the code stands at `line`."""

    offset: int
    line: int
    inlined_at: int = 0
    """The row of this kernel, from 1, that called what this one is inlined from; 0: none."""
    function: str = ""
    """Mangled name of the inlined function."""


@dataclass
class Cubin:
    """A cubin in the making: kernels follow each other from `base` on."""

    base: int = 0x7F2000000000
    source: str = "kernels.cu"
    folder: str = "/src/train"
    _kernels: list[tuple[str, int, list[LineRow]]] = field(default_factory=list)
    _inner: list[tuple[str, int, int, int]] = field(default_factory=list)

    def kernel(self, name: str, size: int = 0x100, rows: list[LineRow] | None = None) -> int:
        """Add a kernel; returns its address."""
        at = self.base + sum(size for _, size, _ in self._kernels)
        self._kernels.append((name, size, rows or []))
        return at

    def device_function(self, name: str, offset: int, size: int) -> None:
        """Add a function that was not inlined, in the code of the last kernel."""
        kernel = self._kernels[-1][0]
        self._inner.append((f"${kernel}${name}", len(self._kernels) - 1, offset, size))

    def build(self) -> bytes:
        """Return the file."""
        strings, names = bytearray(b"\0"), bytearray(b"\0")
        debug_str = bytearray(b"\0")

        def text_in(table: bytearray, text: str) -> int:
            table += text.encode() + b"\0"
            return len(table) - len(text.encode()) - 1

        sections: list[tuple[int, int, int, int, bytes, int, int, int]] = []
        symbols = [bytes(24)]
        at = self.base
        for number, (name, size, _) in enumerate(self._kernels):
            code = bytes(size)
            sections.append(
                (text_in(names, f".text.{name}"), _SHT_PROGBITS, _ALLOC_EXEC, at, code, 0, 0, 0)
            )
            symbols.append(
                struct.pack("<IBBHQQ", text_in(strings, name), 0x12, 0, number + 1, at, size)
            )
            for inner, kernel, offset, length in self._inner:
                if kernel == number:
                    place = (text_in(strings, inner), 2, 0, number + 1, at + offset, length)
                    symbols.append(struct.pack("<IBBHQQ", *place))
            at += size
        lines = self._lines(debug_str)
        count = len(self._kernels)
        for name, kind, data, link, size in (
            (".strtab", _SHT_STRTAB, bytes(strings), 0, 0),
            (".symtab", _SHT_SYMTAB, b"".join(symbols), count + 1, 24),
            *([(".debug_line", _SHT_PROGBITS, lines, 0, 0)] if lines else []),
            *([(".debug_str", _SHT_PROGBITS, bytes(debug_str), 0, 0)] if lines else []),
        ):
            sections.append((text_in(names, name), kind, 0, 0, data, link, 0, size))
        sections.append((text_in(names, ".shstrtab"), _SHT_STRTAB, 0, 0, bytes(names), 0, 0, 0))
        sections[-1] = (*sections[-1][:4], bytes(names), 0, 0, 0)
        return _elf(sections)

    def _lines(self, debug_str: bytearray) -> bytes:
        if not any(rows for _, _, rows in self._kernels):
            return b""
        code = b""
        at = self.base
        for _, size, rows in self._kernels:
            code += b"\0\x09\x02" + struct.pack("<Q", at) + b"\x04\x01" if rows else b""
            offset, line, inlined = 0, 1, (0, "")
            for row in rows:
                if (row.inlined_at, row.function) != inlined:
                    inlined = (row.inlined_at, row.function)
                    where = 0
                    if row.function:
                        where = len(debug_str)
                        debug_str += row.function.encode() + b"\0"
                    call = bytes([_INLINED_CALL]) + uleb(row.inlined_at) + uleb(where)
                    code += b"\0" + uleb(len(call)) + call
                code += b"\x03" + sleb(row.line - line) + b"\x02" + uleb(row.offset - offset)
                code += b"\x01"
                offset, line = row.offset, row.line
            if rows:
                code += b"\x02" + uleb(size - offset) + b"\0\x01\x01"
            at += size
        tables = self.folder.encode() + b"\0\0" + self.source.encode() + b"\0\x01\0\0\0"
        lengths = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
        head = struct.pack("<BBbBB", 1, 1, -5, 14, 13) + lengths + tables
        body = struct.pack("<HI", 3, len(head)) + head + code
        return struct.pack("<I", len(body)) + body


def _elf(sections: list[tuple[int, int, int, int, bytes, int, int, int]]) -> bytes:
    out = bytearray(64)
    headers = [bytes(64)]
    for name, kind, flags, address, data, link, info, entry in sections:
        offset = len(out)
        out += data + bytes(-len(data) % 8)
        headers.append(
            struct.pack(
                *("<IIQQQQIIQQ", name, kind, flags, address, offset, len(data)),
                *(link, info, 8, entry),
            )
        )
    ident = b"\x7fELF" + bytes([2, 1, 1, 0x33, 7]) + bytes(7)
    header = struct.pack(
        *("<16sHHIQQQIHHHHHH", ident, ET_EXEC, EM_CUDA, 1, 0, 0, len(out), 0x5A055A),
        *(64, 56, 0, 64, len(headers), len(headers) - 1),
    )
    out[:64] = header
    return bytes(out + b"".join(headers))


def relocate(cubin: bytes, base: int) -> tuple[bytes, dict[str, int]]:
    """Return a real cubin with its kernels from `base` on, and where each symbol lies."""
    out = bytearray(cubin)
    (table,) = struct.unpack_from("<Q", cubin, 40)
    (count,) = struct.unpack_from("<H", cubin, 60)
    rows = [list(struct.unpack_from("<IIQQQQIIQQ", cubin, table + 64 * i)) for i in range(count)]
    at = base
    for row in rows:
        if row[1] == _SHT_PROGBITS and row[2] & 4:
            row[3] = at
            at += row[5] + 0xFF & ~0xFF
    found: dict[str, int] = {}
    symbols = next(row for row in rows if row[1] == _SHT_SYMTAB)
    strings = rows[symbols[6]][4]
    values = []
    for i in range(symbols[5] // 24):
        place = symbols[4] + 24 * i
        name, info, _, section, value, _size = struct.unpack_from("<IBBHQQ", cubin, place)
        if 0 < section < count and rows[section][3]:
            value += rows[section][3]
            struct.pack_into("<Q", out, place + 8, value)
            if info & 15 == 2:
                start = strings + name
                found[cubin[start : cubin.index(0, start)].decode()] = value
        values.append(value)
    for i, row in enumerate(rows):
        struct.pack_into("<IIQQQQIIQQ", out, table + 64 * i, *row)
        if row[1] not in (_SHT_RELA, _SHT_REL) or not row[7] or rows[row[7]][2] & 4:
            continue
        target = rows[row[7]][4]
        size = 24 if row[1] == _SHT_RELA else 16
        for k in range(row[5] // size):
            offset, info = struct.unpack_from("<QQ", cubin, row[4] + size * k)
            (addend,) = struct.unpack_from(
                *(
                    ("<q", cubin, row[4] + size * k + 16)
                    if size == 24
                    else ("<q", cubin, target + offset)
                )
            )
            # Of .debug_line and the like: 8 bytes, the address of a symbol.
            if info & 0xFFFFFFFF == 2:
                struct.pack_into("<Q", out, target + offset, values[info >> 32] + addend)
    return bytes(out), found
