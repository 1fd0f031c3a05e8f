"""ELF cores made by hand: threads, memory and mapped files as a test wants them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

X86_64, AARCH64 = 62, 183
READ, WRITE, EXECUTE = 4, 2, 1

_NT_PRSTATUS, _NT_AUXV, _NT_FILE = 1, 6, 0x46494C45
_PAGE = 4096

# Index in elf_gregset_t.
X86_REGISTERS = {
    "r15": 0, "r14": 1, "r13": 2, "r12": 3, "rbp": 4, "rbx": 5, "rax": 10, "rcx": 11,
    "rdx": 12, "rsi": 13, "rdi": 14, "orig_rax": 15, "rip": 16, "rsp": 19, "fs_base": 21,
}  # fmt: skip


@dataclass
class Segment:
    """One PT_LOAD: `size` bytes of address space, the first of them dumped as `data`."""

    start: int
    data: bytes
    flags: int = READ | WRITE
    size: int | None = None


@dataclass
class CoreBuilder:
    """Collects the parts of a core; `build` gives its bytes."""

    machine: int = X86_64
    threads: list[tuple[int, int, dict[str, int]]] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    files: list[tuple[int, int, int, str]] = field(default_factory=list)
    """Start, end, offset in bytes, path."""
    auxv: dict[int, int] = field(default_factory=dict)
    notes: list[bytes] = field(default_factory=list)
    """Further notes, whole."""

    def thread(self, tid: int = 1, signal: int = 11, **registers: int) -> CoreBuilder:
        """Add a thread; registers by name, the others are 0."""
        self.threads.append((tid, signal, registers))
        return self

    def words(self, start: int, values: list[int], *, size: int | None = None) -> CoreBuilder:
        """Add writable memory that holds these 64-bit words."""
        data = b"".join(struct.pack("<Q", v & (2**64 - 1)) for v in values)
        self.segments.append(Segment(start, data, READ | WRITE, size))
        return self

    def module(self, path: str, start: int, size: int, *, dumped: bytes = b"") -> CoreBuilder:
        """Map a file as code; of its pages only `dumped` are in the core, as from a kernel."""
        self.segments.append(Segment(start, dumped, READ | EXECUTE, size))
        self.files.append((start, start + size, 0, path))
        return self

    def build(self) -> bytes:
        """Return the core file."""
        notes = b"".join([*map(self._status, self.threads), *self._other_notes(), *self.notes])
        rows = [(4, 4, 0, notes, len(notes))]
        for segment in sorted(self.segments, key=lambda s: s.start):
            size = segment.size or -(-len(segment.data) // _PAGE) * _PAGE
            rows.append((1, segment.flags, segment.start, segment.data, size))
        offset = 64 + 56 * len(rows)
        table, content = b"", b""
        for kind, flags, start, data, size in rows:
            at = offset + len(content)
            table += struct.pack("<IIQQQQQQ", kind, flags, at, start, 0, len(data), size, 1)
            content += data
        header = b"\x7fELF\x02\x01\x01" + bytes(9)
        header += struct.pack(
            "<HHIQQQIHHHHHH", 4, self.machine, 1, 0, 64, 0, 0, 64, 56, len(rows), 0, 0, 0
        )
        return header + table + content

    def _status(self, thread: tuple[int, int, dict[str, int]]) -> bytes:
        tid, signal, registers = thread
        values = [0] * (27 if self.machine == X86_64 else 34)
        for name, value in registers.items():
            values[self._index(name)] = value & (2**64 - 1)
        body = bytearray(112)
        struct.pack_into("<h", body, 12, signal)
        struct.pack_into("<i", body, 32, tid)
        return note(_NT_PRSTATUS, bytes(body) + struct.pack(f"<{len(values)}Q", *values) + bytes(8))

    def _index(self, name: str) -> int:
        if self.machine == X86_64:
            return X86_REGISTERS[name]
        return {"sp": 31, "pc": 32}[name] if name in ("sp", "pc") else int(name[1:])

    def _other_notes(self) -> list[bytes]:
        auxv = b"".join(struct.pack("<QQ", k, v) for k, v in [*self.auxv.items(), (0, 0)])
        rows = struct.pack("<QQ", len(self.files), _PAGE)
        for start, end, offset, _ in self.files:
            rows += struct.pack("<QQQ", start, end, offset // _PAGE)
        rows += b"".join(path.encode() + b"\0" for *_, path in self.files)
        return [note(_NT_AUXV, auxv), note(_NT_FILE, rows)]


def note(kind: int, content: bytes) -> bytes:
    """Return one ELF note of the owner CORE."""
    padding = -len(content) % 4
    return struct.pack("<III", 5, len(content), kind) + b"CORE\0\0\0\0" + content + bytes(padding)


def with_files(core: bytes, files: list[tuple[int, int, int, str]]) -> bytes:
    """Return a core with a list of mapped files put in: qemu-user writes none."""
    builder = CoreBuilder(struct.unpack_from("<H", core, 18)[0], files=files)
    table, count = struct.unpack_from("<Q", core, 32)[0], struct.unpack_from("<H", core, 56)[0]
    for i in range(count):
        kind, flags, offset, start, _, filesz, memsz, _ = struct.unpack_from(
            "<IIQQQQQQ", core, table + 56 * i
        )
        if kind == 4:
            builder.notes.append(core[offset : offset + filesz])
        elif kind == 1 and memsz:
            builder.segments.append(Segment(start, core[offset : offset + filesz], flags, memsz))
    builder.auxv = {}
    return builder.build()
