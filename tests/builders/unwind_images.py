"""ELF files with unwind tables and symbols written byte by byte."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from builders.unwind_cores import X86_64

TEXT, EH_FRAME, EH_FRAME_HDR, TABLES = 0x1000, 0x2000, 0x2C00, 0x3000
SIZE = 0x4000

LOCAL, GLOBAL, WEAK = 0, 1, 2
NOTYPE, OBJECT, FUNC = 0, 1, 2


def uleb(value: int) -> bytes:
    """Return an unsigned LEB128."""
    out = b""
    while True:
        value, byte = value >> 7, value & 0x7F
        out += bytes([byte | (0x80 if value else 0)])
        if not value:
            return out


def sleb(value: int) -> bytes:
    """Return a signed LEB128."""
    out = b""
    while True:
        byte, value = value & 0x7F, value >> 7
        done = (value == 0 and not byte & 0x40) or (value == -1 and byte & 0x40)
        out += bytes([byte | (0 if done else 0x80)])
        if done:
            return out


def block(code: bytes) -> bytes:
    """Return a DWARF block: its length, then it."""
    return uleb(len(code)) + code


@dataclass
class Function:
    """A range of text and its unwind program."""

    start: int
    size: int
    program: bytes
    signal: bool = False


# x86-64 at function entry: CFA is rsp+8, the return address lies at CFA-8.
AT_ENTRY = b"\x0c\x07\x08" + b"\x90\x01"


@dataclass
class ImageBuilder:
    """Collects the parts of an ELF file; `build` gives its bytes. Linked at address 0."""

    machine: int = X86_64
    text: dict[int, bytes] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    symbols: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    """Name, address, size, binding, type."""
    pointer_encoding: int = 0x1B  # pc-relative, signed 4 bytes
    table_encoding: int = 0x3B  # relative to the header, signed 4 bytes
    header: bool = True
    debug_frame: bool = False
    long_length: bool = False
    cie_program: bytes = AT_ENTRY
    return_column: int = 16
    raw_eh_frame: bytes | None = None

    def function(
        self, start: int, size: int, program: bytes, *, signal: bool = False
    ) -> ImageBuilder:
        """Add a function with an unwind program, which starts from that of the CIE."""
        self.functions.append(Function(start, size, program, signal))
        return self

    def build(self) -> bytes:
        """Return the file."""
        image = bytearray(SIZE)
        for address, code in self.text.items():
            image[address : address + len(code)] = code
        frame, entries = self._frames()
        assert len(frame) < EH_FRAME_HDR - EH_FRAME
        image[EH_FRAME : EH_FRAME + len(frame)] = frame
        header = self._header(entries) if self.header and not self.debug_frame else b""
        image[EH_FRAME_HDR : EH_FRAME_HDR + len(header)] = header
        sections = self._sections(image, len(frame))
        rows = [struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, SIZE, SIZE, 4096)]
        if header:
            at, n = EH_FRAME_HDR, len(header)
            rows.append(struct.pack("<IIQQQQQQ", 0x6474E550, 4, at, at, at, n, n, 4))
        image[64 : 64 + 56 * len(rows)] = b"".join(rows)
        image[0:16] = b"\x7fELF\x02\x01\x01" + bytes(9)
        struct.pack_into(
            "<HHIQQQIHHHHHH", image, 16, 3, self.machine, 1, 0, 64, SIZE, 0, 64, 56, len(rows),
            64, len(sections), len(sections) - 1,
        )  # fmt: skip
        return bytes(image) + b"".join(sections)

    def _pointer(self, value: int, at: int) -> bytes:
        relative = {0x00: 0, 0x10: at}[self.pointer_encoding & 0x70]
        return self._form(value - relative)

    def _form(self, value: int) -> bytes:
        formats = {0: "<Q", 3: "<I", 4: "<Q", 0xA: "<h", 0xB: "<i", 0xC: "<q"}
        if self.debug_frame:
            return struct.pack("<Q", value)
        return struct.pack(formats[self.pointer_encoding & 0x0F], value)

    def _entry(self, content: bytes) -> bytes:
        content += bytes(-len(content) % 8)
        if self.long_length:
            return struct.pack("<IQ", 0xFFFFFFFF, len(content)) + content
        return struct.pack("<I", len(content)) + content

    def _cie(self, signal: bool) -> bytes:
        id_format = "<Q" if self.long_length else "<I"
        if self.debug_frame:
            head = struct.pack(id_format, 2**64 - 1 if self.long_length else 2**32 - 1) + b"\x03\0"
        else:
            head = struct.pack(id_format, 0) + b"\x01" + (b"zRS\0" if signal else b"zR\0")
        head += uleb(1) + sleb(-8) + uleb(self.return_column)
        if not self.debug_frame:
            head += uleb(1) + bytes([self.pointer_encoding])
        return self._entry(head + self.cie_program)

    def _frames(self) -> tuple[bytes, list[tuple[int, int]]]:
        if self.raw_eh_frame is not None:
            return self.raw_eh_frame, []
        base = 0 if self.debug_frame else EH_FRAME
        out, entries = b"", []
        head = 12 if self.long_length else 4
        for function in self.functions:
            cie_at = base + len(out)
            out += self._cie(function.signal)
            fde_at = base + len(out)
            field_at = fde_at + head
            width = 8 if self.long_length else 4
            back = cie_at if self.debug_frame else field_at - cie_at
            body = back.to_bytes(width, "little")
            if self.debug_frame:
                body += struct.pack("<QQ", function.start, function.size)
            else:
                body += self._pointer(function.start, field_at + width)
                body += self._form(function.size) + uleb(0)
            out += self._entry(body + function.program)
            entries.append((function.start, fde_at))
        return out + bytes(4), sorted(entries)

    def _header(self, entries: list[tuple[int, int]]) -> bytes:
        out = bytes([1, 0x1B, 0x03, self.table_encoding])
        out += struct.pack("<i", EH_FRAME - (EH_FRAME_HDR + 4))
        out += struct.pack("<I", len(entries))
        if self.table_encoding == 0xFF:
            return out
        form = {0xB: "<i", 0xC: "<q", 3: "<I"}[self.table_encoding & 0x0F]
        base = EH_FRAME_HDR if self.table_encoding & 0x70 == 0x30 else 0
        for start, entry in entries:
            out += struct.pack(form, start - base) + struct.pack(form, entry - base)
        return out

    def _sections(self, image: bytearray, frame_size: int) -> list[bytes]:
        names = b"\0.text\0.eh_frame\0.debug_frame\0.symtab\0.strtab\0.shstrtab\0"
        strings, table = b"\0", bytes(24)
        for name, address, size, binding, kind in self.symbols:
            table += struct.pack("<IBBHQQ", len(strings), binding << 4 | kind, 0, 1, address, size)
            strings += name.encode() + b"\0"
        blob = table + strings + names
        image[TABLES : TABLES + len(blob)] = blob
        at = TABLES
        frame_name = b".debug_frame" if self.debug_frame else b".eh_frame"
        rows = [
            (b"", 0, 0, 0, 0, 0, 0),
            (b".text", 1, 6, TEXT, TEXT, EH_FRAME - TEXT, 0),
            (frame_name, 1, 0 if self.debug_frame else 2, EH_FRAME, EH_FRAME, frame_size, 0),
            (b".symtab", 2, 0, 0, at, len(table), 4),
            (b".strtab", 3, 0, 0, at + len(table), len(strings), 0),
            (b".shstrtab", 3, 0, 0, at + len(table) + len(strings), len(names), 0),
        ]
        return [
            struct.pack(
                "<IIQQQQIIQQ", names.index(name + b"\0"), kind, flags, address, offset, size,
                link, 0, 1, 24 if kind == 2 else 0,
            )
            for name, kind, flags, address, offset, size, link in rows
        ]  # fmt: skip
