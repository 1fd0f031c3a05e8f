"""Writers of ELF cores and ELF files, field by field, that can be told to lie.

They are laid out after the gABI, ``fs/binfmt_elf.c`` and ``gdb/linux-tdep.c`` with `struct`, and
know nothing of the reader that they test. Every size, count and offset that a reader might trust
can be replaced: by an override of the header, or by bytes of your own for a note.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

EM_X86_64, EM_AARCH64, EM_S390 = 62, 183, 22
ET_REL, ET_EXEC, ET_DYN, ET_CORE = 1, 2, 3, 4
PT_LOAD, PT_DYNAMIC, PT_NOTE = 1, 2, 4
PF_X, PF_W, PF_R = 1, 2, 4
PN_XNUM = 0xFFFF
NT_PRSTATUS, NT_FPREGSET, NT_PRPSINFO, NT_AUXV = 1, 2, 3, 6
NT_SIGINFO, NT_FILE, NT_ARM_TLS, NT_GNU_BUILD_ID = 0x53494749, 0x46494C45, 0x401, 3
AT_PHDR, AT_ENTRY = 3, 9
PAGE = 4096

_EHDR = "16sHHIQQQIHHHHHH"
_EHDR_FIELDS = (
    *("ident", "type", "machine", "version", "entry", "phoff", "shoff", "flags", "ehsize"),
    *("phentsize", "phnum", "shentsize", "shnum", "shstrndx"),
)
_REGISTERS = {EM_X86_64: 27, EM_AARCH64: 34}
_PC_SP = {EM_X86_64: (16, 19), EM_AARCH64: (32, 31)}


def elf_header(*, endian: str = "<", **fields: int | bytes) -> bytes:
    """Return an ELF64 header; what is not given is as in a valid file of x86-64."""
    ident = b"\x7fELF" + bytes([2, 1 if endian == "<" else 2, 1]) + bytes(9)
    values: dict[str, int | bytes] = dict.fromkeys(_EHDR_FIELDS, 0)
    values |= {"ident": ident, "type": ET_CORE, "machine": EM_X86_64, "version": 1}
    values |= {"phoff": 64, "ehsize": 64, "phentsize": 56, "shentsize": 64}
    unknown = set(fields) - set(values)
    if unknown:
        raise TypeError(f"no such field of an ELF header: {sorted(unknown)}")
    values |= fields
    return struct.pack(endian + _EHDR, *(values[name] for name in _EHDR_FIELDS))


def program_header(
    kind: int, flags: int, offset: int, vaddr: int, filesz: int, memsz: int, align: int = PAGE
) -> bytes:
    """Return one ELF64 program header."""
    return struct.pack("<IIQQQQQQ", kind, flags, offset, vaddr, vaddr, filesz, memsz, align)


def note(
    name: bytes, kind: int, content: bytes, *, namesz: int | None = None, descsz: int | None = None
) -> bytes:
    """Return one note, padded to four bytes; `namesz` and `descsz` may lie."""

    def pad(data: bytes) -> bytes:
        return data + bytes(-len(data) % 4)

    return (
        struct.pack(
            "<III",
            len(name) if namesz is None else namesz,
            len(content) if descsz is None else descsz,
            kind,
        )
        + pad(name)
        + pad(content)
    )


def build_id_note(build_id: bytes) -> bytes:
    """Return the note that holds a build ID."""
    return note(b"GNU\0", NT_GNU_BUILD_ID, build_id)


def file_note(
    rows: list[tuple[int, int, int, bytes]],
    *,
    count: int | None = None,
    page_size: int = PAGE,
    names: bytes | None = None,
) -> bytes:
    """Return the content of NT_FILE; rows are (start, end, offset in pages, path)."""
    head = struct.pack("<QQ", len(rows) if count is None else count, page_size)
    body = b"".join(struct.pack("<QQQ", *row[:3]) for row in rows)
    return head + body + (b"".join(row[3] + b"\0" for row in rows) if names is None else names)


def without_notes(core: bytes, *kinds: int) -> bytes:
    """Return a real core whose notes of some kinds are none that anybody knows."""
    result = bytearray(core)
    for at, kind, _ in _notes(core):
        if kind in kinds:
            struct.pack_into("<I", result, at + 8, 0x7FFF0000)
    return bytes(result)


def as_createdump(core: bytes) -> bytes:
    """Return gdb's core as .NET's createdump would have it: no siginfo, no auxiliary vector, and
    SIGABRT in the status of every thread, whatever the process was doing."""
    result = bytearray(without_notes(core, NT_SIGINFO, NT_AUXV))
    for _, kind, content in _notes(core):
        if kind == NT_PRSTATUS:
            struct.pack_into("<i", result, content, 6)
            struct.pack_into("<h", result, content + 12, 6)  # pr_cursig
    return bytes(result)


def _notes(core: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where each note of a core begins, its kind, and where its content does."""
    (table,) = struct.unpack_from("<Q", core, 32)
    (count,) = struct.unpack_from("<H", core, 56)
    for i in range(count):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", core, table + 56 * i)
        at = offset
        while kind == PT_NOTE and at + 12 <= offset + size:
            name_size, content_size, note_kind = struct.unpack_from("<III", core, at)
            content = at + 12 + (name_size + 3 & ~3)
            yield at, note_kind, content
            at = content + (content_size + 3 & ~3)


@dataclass
class _Segment:
    vaddr: int
    data: bytes
    flags: int
    memsz: int
    filesz: int
    offset: int | None


@dataclass
class CoreBuilder:
    """A core in the making. ``build()`` gives its bytes; calls may be chained."""

    machine: int = EM_X86_64
    gcore: bool = False
    """gdb's order of notes: the process first, one SIGINFO for each thread."""
    header: dict[str, int | bytes] = field(default_factory=dict)
    """Fields of the ELF header to replace."""
    xnum: bool | None = None
    """PN_XNUM with the count in section header 0; None: as soon as the kernel would."""
    section_count: int | None = None
    """What section header 0 says instead of the truth."""
    drop_section: bool = False
    """Leave section header 0 out, as a cut core has lost it."""
    _threads: list[bytes] = field(default_factory=list)
    _process: bytes | None = None
    _siginfo: bytes | None = None
    _shared: list[bytes] = field(default_factory=list)
    _extra: list[bytes] = field(default_factory=list)
    _segments: list[_Segment] = field(default_factory=list)

    def thread(
        self,
        tid: int,
        signal: int = 0,
        registers: dict[int, int] | None = None,
        *,
        pc: int = 0,
        sp: int = 0,
        size: int | None = None,
        info: tuple[int, int, int] | None = None,
    ) -> Self:
        """Add NT_PRSTATUS; `registers` by index, `size` cuts the note.

        `info` is a NT_SIGINFO of the thread's own behind it: signal, code, address.
        """
        values = [0] * _REGISTERS.get(self.machine, 27)
        pc_index, sp_index = _PC_SP.get(self.machine, (16, 19))
        values[pc_index], values[sp_index] = pc, sp
        for index, value in (registers or {}).items():
            values[index] = value
        head = struct.pack("<iiihxxQQiiii", signal, 0, 0, signal, 0, 0, tid, 1, tid, tid)
        status = head + bytes(64) + struct.pack(f"<{len(values)}Q", *values) + bytes(8)
        own = b""
        if info is not None:
            content = struct.pack("<iiiiQ", info[0], 0, info[1], 0, info[2]).ljust(128, b"\0")
            own = note(b"CORE\0", NT_SIGINFO, content)
        self._threads.append(note(b"CORE\0", NT_PRSTATUS, status[:size]) + own)
        return self

    def process(
        self, pid: int = 1000, ppid: int = 1, uid: int = 0, name: bytes = b"prog", args: bytes = b""
    ) -> Self:
        """Set NT_PRPSINFO."""
        content = struct.pack(
            "<bbbbxxxxQIIiiii16s80s", 0, 82, 0, 0, 0, uid, uid, pid, ppid, pid, pid, name, args
        )
        self._process = note(b"CORE\0", NT_PRPSINFO, content)
        return self

    def siginfo(
        self, signal: int, code: int, *, address: int = 0, pid: int = 0, uid: int = 0
    ) -> Self:
        """Set NT_SIGINFO; the union holds the sender if there is one, else the address."""
        union = struct.pack("<iI", pid, uid) if pid else struct.pack("<Q", address)
        content = struct.pack("<iiii", signal, 0, code, 0) + union
        self._siginfo = note(b"CORE\0", NT_SIGINFO, content.ljust(128, b"\0"))
        return self

    def auxv(self, entries: dict[int, int]) -> Self:
        """Set NT_AUXV."""
        pairs = [*entries.items(), (0, 0)]
        content = b"".join(struct.pack("<QQ", *pair) for pair in pairs)
        self._shared.append(note(b"CORE\0", NT_AUXV, content))
        return self

    def files(
        self,
        rows: list[tuple[int, int, int, bytes]],
        *,
        count: int | None = None,
        page_size: int = PAGE,
        names: bytes | None = None,
    ) -> Self:
        """Set NT_FILE, as `file_note` has it."""
        content = file_note(rows, count=count, page_size=page_size, names=names)
        self._shared.append(note(b"CORE\0", NT_FILE, content))
        return self

    def raw_note(self, data: bytes) -> Self:
        """Add bytes behind the other notes."""
        self._extra.append(data)
        return self

    def segment(
        self,
        vaddr: int,
        data: bytes = b"",
        flags: int = PF_R,
        *,
        memsz: int | None = None,
        filesz: int | None = None,
        offset: int | None = None,
    ) -> Self:
        """Add a PT_LOAD; `filesz` and `offset` may lie."""
        self._segments.append(
            _Segment(
                vaddr,
                data,
                flags,
                len(data) if memsz is None else memsz,
                len(data) if filesz is None else filesz,
                offset,
            )
        )
        return self

    def notes(self) -> bytes:
        """Return all notes in the order of the one who writes."""
        process = [self._process] if self._process else []
        signal = [self._siginfo] if self._siginfo else []
        if self.gcore:
            threads = [part for thread in self._threads for part in (thread, *signal)]
            return b"".join([*process, *threads, *self._shared, *self._extra])
        first, rest = self._threads[:1], self._threads[1:]
        return b"".join([*first, *process, *signal, *self._shared, *rest, *self._extra])

    def build(self) -> bytes:
        """Return the whole core."""
        notes = self.notes()
        count = 1 + len(self._segments)
        xnum = count >= PN_XNUM if self.xnum is None else self.xnum
        notes_at = 64 + 56 * count
        at = notes_at + len(notes)
        at += -at % PAGE if any(s.data for s in self._segments) else 0
        headers = [program_header(PT_NOTE, 0, notes_at, 0, len(notes), 0, 4)]
        contents = [notes.ljust(at - notes_at, b"\0")]
        for s in self._segments:
            offset = at if s.offset is None else s.offset
            headers.append(program_header(PT_LOAD, s.flags, offset, s.vaddr, s.filesz, s.memsz))
            contents.append(s.data)
            at += len(s.data)
        fields: dict[str, int | bytes] = {
            "machine": self.machine,
            "phnum": PN_XNUM if xnum else count,
        }
        if xnum:
            fields |= {"shoff": at, "shnum": 1}
            if not self.drop_section:
                said = count if self.section_count is None else self.section_count
                contents.append(struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1, 0, said, 0, 0))
        return elf_header(**(fields | self.header)) + b"".join(headers) + b"".join(contents)


@dataclass
class ElfBuilder:
    """A small shared object: one PT_LOAD over all of it, a build ID, a dynsym, raw sections."""

    machine: int = EM_X86_64
    type: int = ET_DYN
    build_id: bytes | None = None
    symbols: dict[bytes, int] = field(default_factory=dict)
    """Defined dynamic symbols by name; found through section headers, there is no hash table."""
    sections: dict[bytes, bytes] = field(default_factory=dict)
    """Raw PROGBITS sections, .eh_frame for example; each is loaded at its file offset."""
    header: dict[str, int | bytes] = field(default_factory=dict)

    def build(self) -> bytes:
        """Return the file. Link-time addresses equal file offsets."""
        note_data = build_id_note(self.build_id) if self.build_id is not None else b""
        count = 1 + bool(note_data) + bool(self.symbols)
        at = 64 + 56 * count
        parts: list[tuple[bytes, int, bytes, int, int]] = []  # name, type, data, link, entsize
        if note_data:
            parts.append((b".note.gnu.build-id", 7, note_data, 0, 0))
        if self.symbols:
            strings, rows = b"\0", [bytes(24)]
            for name, value in self.symbols.items():
                rows.append(struct.pack("<IBBHQQ", len(strings), 0x12, 0, 1, value, 8))
                strings += name + b"\0"
            parts.append((b".dynsym", 11, b"".join(rows), len(parts) + 2, 24))
            parts.append((b".dynstr", 3, strings, 0, 0))
            parts.append((b".dynamic", 6, bytes(16), len(parts), 16))
        parts += [(name, 1, data, 0, 0) for name, data in self.sections.items()]
        names = b"\0" + b"".join(name + b"\0" for name, *_ in parts) + b".shstrtab\0"
        parts.append((b".shstrtab", 3, names, 0, 0))
        body, rows, offsets = b"", [bytes(64)], {}
        for name, kind, data, link, entry in parts:
            body += bytes(-(at + len(body)) % 8)
            offset = at + len(body)
            offsets[name] = (offset, len(data))
            rows.append(
                struct.pack(
                    "<IIQQQQIIQQ",
                    names.index(b"\0" + name + b"\0") + 1,
                    kind,
                    2,
                    offset,
                    offset,
                    len(data),
                    link,
                    0,
                    8,
                    entry,
                )
            )
            body += data
        body += bytes(-(at + len(body)) % 8)
        shoff = at + len(body)
        size = shoff + 64 * len(rows)
        programs = [program_header(PT_LOAD, PF_R | PF_X, 0, 0, size, size)]
        for kind, name in ((PT_NOTE, b".note.gnu.build-id"), (PT_DYNAMIC, b".dynamic")):
            if name in offsets:
                offset, length = offsets[name]
                programs.append(program_header(kind, PF_R, offset, offset, length, length, 4))
        fields: dict[str, int | bytes] = {
            "machine": self.machine,
            "type": self.type,
            "phnum": len(programs),
            "shoff": shoff,
            "shnum": len(rows),
            "shstrndx": len(rows) - 1,
        }
        return elf_header(**(fields | self.header)) + b"".join(programs) + body + b"".join(rows)


def last_words(
    text: bytes,
    *,
    size: int = PAGE,
    path: bytes = b"/gone/libc.so.6",
    hole: bool = False,
    info: bool = True,
) -> CoreBuilder:
    """Return a core by SIGABRT whose C library is of an unknown build: one of its variables points
    to a page of its own that begins with the page's size and the words.

    With `hole`, the library is aligned to more than a page, as on aarch64: what lies between its
    code and its data is a mapping that may not be touched, from further behind in the file.
    """
    libc, page = 0x7F0000000000, 0x7F0000100000
    variables = bytes(64) + struct.pack("<Q", page) + bytes(PAGE - 72)
    core = CoreBuilder().thread(1000, 6, pc=libc + 64, sp=page + 0x200000).process()
    data = libc + (3 * PAGE if hole else PAGE)
    if info:  # qemu writes none
        core.siginfo(6, -6, pid=1000)
    between = [(libc + PAGE, data, 2 * PAGE, path)] if hole else []
    core.files([(libc, libc + PAGE, 0, path), *between, (data, data + PAGE, PAGE, path)])
    core.segment(libc, elf_header(type=ET_DYN).ljust(PAGE, b"\0"), PF_R | PF_X)
    if hole:
        core.segment(libc + PAGE, b"", 0, memsz=2 * PAGE)
    core.segment(data, variables, PF_R | PF_W)
    return core.segment(page, (struct.pack("<I", size) + text).ljust(PAGE, b"\0"), PF_R | PF_W)
