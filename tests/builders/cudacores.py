"""Writers of core dumps of CUDA GPUs, table by table, that can be told to lie.

They are laid out after NVIDIA's public description of the format (``cudacoredump.h``): an ELF file
whose sections are tables, each linked to the row of another table that it belongs to. Rows are as
long as the driver of a version wrote them. Nothing here has been compared with a dump of a real
GPU; cuda-gdb 11.8 reads what is built for driver 520, with the same exception, thread and line.
"""

import struct
from dataclasses import dataclass, field
from typing import Self

EM_CUDA = 190
_SHT_STRTAB = 3
_LOUSER = 0x80000000

Three = tuple[int, int, int]

KINDS = {
    name: _LOUSER + number
    for number, name in enumerate(
        (
            *("managed", "global", "local", "shared", "regs", "elfimg", "relfimg", "bt"),
            *("devtbl", "ctxtbl", "smtbl", "gridtbl", "ctatbl", "wptbl", "lntbl", "modtbl"),
            *("pred", "param", "uregs", "upred", "cbankstbl", "meta", "cbu_bar"),
        ),
        start=1,
    )
}

_ROW_BYTES = {
    "devtbl": {346: 72, 400: 80, 575: 88},
    "ctxtbl": {346: 40},
    "modtbl": {346: 8},
    "gridtbl": {346: 104, 525: 120, 565: 136},
    "cbankstbl": {550: 16},
    "smtbl": {346: 8, 555: 24, 565: 40, 580: 48},
    "ctatbl": {346: 24, 525: 40, 565: 56},
    "wptbl": {346: 32, 525: 40, 570: 48, 575: 64, 590: 80},
    "lntbl": {346: 48, 575: 56, 615: 64},
    "bt": {346: 24},
    "meta": {565: 32},
}
"""Bytes of a row since each driver that made it longer."""


def row_bytes(table: str, driver: int) -> int:
    """Return how long a row of a table is that a driver writes; 0: it has no such table."""
    return max((size for since, size in _ROW_BYTES[table].items() if since <= driver), default=0)


@dataclass
class _Section:
    name: str
    kind: int
    data: bytes
    link: str = ""
    info: int = 0
    address: int = 0
    entry: int = 0


@dataclass
class Lane:
    """One thread: its row, and what belongs to it."""

    number: int
    thread: Three
    pc: int
    exception: int = 0
    offset: int = 0
    calls: list[int] = field(default_factory=list)
    """Return addresses, the innermost first."""
    registers: list[int] | None = None
    predicates: list[int] | None = None
    local: tuple[int, bytes] | None = None


@dataclass
class Warp:
    """One warp of a block."""

    number: int = 0
    error_pc: int | None = None
    broken: bool = False
    active: int | None = None
    valid: int | None = None
    registers: int = 32
    in_system: int = 0
    uniform: list[int] | None = None
    lanes: list[Lane] = field(default_factory=list)

    def lane(self, number: int, thread: Three, pc: int, exception: int = 0, **more: object) -> Self:
        """Add a thread."""
        self.lanes.append(Lane(number, thread, pc, exception, **more))  # type: ignore[arg-type]
        return self

    def all_at(self, pc: int, *, first: Three = (0, 0, 0), count: int = 32, **more: object) -> Self:
        """Add threads that stand at one place."""
        x, y, z = first
        for number in range(count):
            self.lane(number, (x + number, y, z), pc, **more)  # type: ignore[arg-type]
        return self


@dataclass
class Block:
    """One block on a multiprocessor."""

    grid: int
    index: Three
    shared: bytes | None = None
    warps: list[Warp] = field(default_factory=list)

    def warp(self, number: int = 0, **more: object) -> Warp:
        """Add a warp."""
        self.warps.append(Warp(number, **more))  # type: ignore[arg-type]
        return self.warps[-1]


@dataclass
class Processor:
    """One streaming multiprocessor."""

    number: int = 0
    exception: int = 0
    error_pc: int | None = None
    detail: str = ""
    blocks: list[Block] = field(default_factory=list)

    def block(self, grid: int, index: Three, shared: bytes | None = None) -> Block:
        """Add a block."""
        self.blocks.append(Block(grid, index, shared))
        return self.blocks[-1]


@dataclass
class Device:
    """One GPU."""

    name: str = "NVIDIA H100 80GB HBM3"
    chip: str = "GH100"
    sm: tuple[int, int] = (9, 0)
    pci: tuple[int, int] = (0x18, 0)
    instruction: int = 16
    processors: list[Processor] = field(default_factory=list)
    grids: list[dict[str, object]] = field(default_factory=list)
    contexts: list[tuple[int, int]] = field(default_factory=list)
    modules: list[tuple[int, int, bytes | None]] = field(default_factory=list)

    def processor(self, number: int = 0, **more: object) -> Processor:
        """Add a multiprocessor."""
        self.processors.append(Processor(number, **more))  # type: ignore[arg-type]
        return self.processors[-1]

    def context(self, handle: int = 0xC0DE, tid: int = 0) -> Self:
        """Add a context."""
        self.contexts.append((handle, tid))
        return self

    def module(self, handle: int, code: bytes | None, context: int = 0) -> Self:
        """Add a module with its relocated code to a context, by place."""
        self.modules.append((context, handle, code))
        return self

    def grid(self, number: int, entry: int, size: Three, block: Three, **more: object) -> Self:
        """Add a kernel that was launched."""
        self.grids.append({"id": number, "entry": entry, "size": size, "block": block, **more})
        return self


@dataclass
class CudaCore:
    """A dump in the making. ``build()`` gives its bytes."""

    driver: int = 615
    devices: list[Device] = field(default_factory=list)
    global_memory: list[tuple[int, bytes]] = field(default_factory=list)
    managed_memory: list[tuple[int, bytes]] = field(default_factory=list)
    raw: list[_Section] = field(default_factory=list)
    metadata: tuple[int, int, int, int, int] | None = (12, 9, 47, 1_790_000_000, 0)
    """CUDA's major and minor version, generation flags, seconds since 1970."""
    many: bool = False
    """The count of sections in section header 0, as where there are 65,280 or more."""
    header: dict[str, int] = field(default_factory=dict)

    def device(self, **more: object) -> Device:
        """Add a GPU."""
        self.devices.append(Device(**more))  # type: ignore[arg-type]
        return self.devices[-1]

    def build(self) -> bytes:
        """Return the file: header, contents, section headers."""
        self._strings = bytearray(b"\0")
        self._sections: list[_Section] = []
        if self.metadata is not None and row_bytes("meta", self.driver):
            major, minor, flags, stamp, _ = self.metadata
            words = (self.driver, 1, major, minor, flags, stamp)
            self._table("meta", "", 0, [struct.pack("<Q6I", self._text("cuda"), *words)])
        self._table("devtbl", "", 0, [self._device_row(i, d) for i, d in enumerate(self.devices)])
        for number, device in enumerate(self.devices):
            self._device(number, device)
        for number, (address, data) in enumerate(self.global_memory):
            self._add(f".cudbg.global.{number}", "global", data, address=address)
        for number, (address, data) in enumerate(self.managed_memory):
            self._add(f".cudbg.global.{number}", "managed", data, address=address)
        self._sections += self.raw
        return self._elf()

    def _text(self, text: str) -> int:
        if not text:
            return 0
        self._strings += text.encode() + b"\0"
        return len(self._strings) - len(text.encode()) - 1

    def _add(
        self, name: str, kind: str, data: bytes, link: str = "", info: int = 0, **more: int
    ) -> str:
        self._sections.append(_Section(name, KINDS[kind], data, link, info, **more))
        return name

    def _table(self, table: str, suffix: str, info: int, rows: list[bytes], link: str = "") -> str:
        size = row_bytes(table, self.driver)
        data = b"".join(row[:size].ljust(size, b"\0") for row in rows)
        return self._add(f".cudbg.{table}{suffix}", table, data, link, info, entry=size)

    def _device_row(self, number: int, device: Device) -> bytes:
        texts = (device.name, device.chip, f"sm_{device.sm[0]}{device.sm[1]}")
        return struct.pack(
            *("<3Q16I", *(self._text(text) for text in texts), number, *device.pci),
            *(max(len(device.processors), 1), 64, 32, 255, 7, *device.sm, device.instruction, 0),
            *(63, 7, 16, 0),
        )

    def _device(self, number: int, device: Device) -> None:
        suffix = f".dev{number}"
        contexts = self._table(
            "ctxtbl",
            suffix,
            number,
            [struct.pack("<4Q2I", at, 0x7F00_0000_0000, 0x7F00_0100_0000, 0, number, tid)
             for at, tid in device.contexts],
            ".cudbg.devtbl",
        )  # fmt: skip
        for place in range(len(device.contexts)):
            own = [(handle, code) for context, handle, code in device.modules if context == place]
            end = f"{suffix}.ctx{place}"
            rows = [struct.pack("<Q", handle) for handle, _ in own]
            table = self._table("modtbl", end, place, rows, contexts)
            for row, (_, code) in enumerate(own):
                if code is not None:
                    self._add(f".cudbg.relfimg{end}", "relfimg", code, table, row)
                    self._add(f".cudbg.elfimg{end}", "elfimg", code, table, row)
        rows = [self._grid_row(device, grid) for grid in device.grids]
        grids = self._table("gridtbl", suffix, number, rows, ".cudbg.devtbl")
        for row, grid in enumerate(device.grids):
            if isinstance(params := grid.get("params"), bytes):
                self._add(f".cudbg.param{suffix}.grid{row}", "param", params, grids, row)
            if row_bytes("cbankstbl", self.driver):
                bank = struct.pack("<Q2I", 0x7F00_2000_0000, 0x1000, 0)
                self._table("cbankstbl", f"{suffix}.grid{row}", row, [bank], grids)
        rows = [self._processor_row(processor) for processor in device.processors]
        table = self._table("smtbl", suffix, number, rows, ".cudbg.devtbl")
        for row, processor in enumerate(device.processors):
            self._processor(f"{suffix}.sm{row}", row, processor, table)

    def _grid_row(self, device: Device, grid: dict[str, object]) -> bytes:
        def value(name: str, default: int = 0) -> int:
            return int(grid.get(name, default))  # type: ignore[call-overload]

        context = device.contexts[value("context")][0] if device.contexts else 0
        handles = [handle for _, handle, _ in device.modules] or [0]
        head = (value("id"), context, value("entry") ^ 0xF, value("entry"))
        more = (value("module", handles[0]), 0, 0x210)
        kinds = (value("type", 2), value("origin"), value("status", 1), value("registers", 32))
        shape = (*grid["size"], *grid["block"])  # type: ignore[misc]
        cluster = grid.get("cluster", (1, 1, 1))
        end = (value("blocking"), value("host_tid"))
        return struct.pack(
            *("<7Q20I", *head, *more, *kinds, *shape, *end, *cluster, 0, 0, 0, 0, 0)  # type: ignore[misc]
        )

    def _processor_row(self, processor: Processor) -> bytes:
        pc = processor.error_pc
        words = (processor.number, 0, processor.exception, pc is not None)
        return struct.pack("<4IQ4IQ", *words, pc or 0, 0, 0, 0, 0, self._text(processor.detail))

    def _processor(self, suffix: str, row: int, processor: Processor, link: str) -> None:
        if not processor.blocks:
            return
        rows = [
            struct.pack("<Q12I", block.grid, *block.index, 0, 0, 0, 0, 0, 1, 1, 1, 0)
            for block in processor.blocks
        ]
        table = self._table("ctatbl", suffix, row, rows, link)
        for number, block in enumerate(processor.blocks):
            end = f"{suffix}.cta{number}"
            if block.shared is not None:
                self._add(f".cudbg.shared{end}", "shared", block.shared, table, number)
            warps = self._table(
                "wptbl", end, number, [self._warp_row(warp) for warp in block.warps], table
            )
            for place, warp in enumerate(block.warps):
                self._warp(f"{end}.wp{place}", place, warp, warps)

    def _warp_row(self, warp: Warp) -> bytes:
        lanes = sum(1 << lane.number for lane in warp.lanes)
        valid = lanes if warp.valid is None else warp.valid
        active = valid if warp.active is None else warp.active
        has_pc = warp.error_pc is not None
        words = (warp.number, valid, active, warp.broken, has_pc, 0, warp.registers, 0, 0, 0)
        more = (warp.in_system, active, 0, 0, 0, 0)
        return struct.pack("<Q16IQ", warp.error_pc or 0, *words, *more, 0)

    def _warp(self, suffix: str, row: int, warp: Warp, link: str) -> None:
        if warp.uniform is not None and self.driver >= 400:
            words = struct.pack(f"<{len(warp.uniform)}I", *warp.uniform)
            self._add(f".cudbg.uregs{suffix}", "uregs", words, link, row, entry=4)
            self._add(f".cudbg.upred{suffix}", "upred", bytes(28), link, row, entry=4)
        rows = []
        for lane in warp.lanes:
            words = (lane.number, *lane.thread, lane.exception, len(lane.calls), 0, 0, 0, 0, 0, 0)
            rows.append(struct.pack("<2Q12I", lane.pc, lane.offset, *words))
        table = self._table("lntbl", suffix, row, rows, link)
        for place, lane in enumerate(warp.lanes):
            end = f"{suffix}.ln{place}"
            for kind, values in (("regs", lane.registers), ("pred", lane.predicates)):
                if values is not None:
                    words = struct.pack(f"<{len(values)}I", *values)
                    self._add(f".cudbg.{kind}{end}", kind, words, table, place, entry=4)
            if lane.local is not None:
                address, data = lane.local
                self._add(f".cudbg.local{end}", "local", data, table, place, address=address)
            if lane.calls:
                back = [struct.pack("<2Q2I", at, at, i, 0) for i, at in enumerate(lane.calls)]
                self._table("bt", end, place, back, table)

    def _elf(self) -> bytes:
        names = bytearray(b"\0.strtab\0.shstrtab\0")
        number = {"": 0}
        for place, section in enumerate(self._sections, start=3):
            number.setdefault(section.name, place)
        rows = []
        for section in self._sections:
            rows.append((len(names), section))
            names += section.name.encode() + b"\0"
        out = bytearray(64)
        headers = [bytes(64)]

        def put(name: int, kind: int, data: bytes, **more: int) -> None:
            offset = len(out)
            out.extend(data + bytes(-len(data) % 8))
            fields = (name, kind, 0, more.get("address", 0), offset, len(data))
            end = (more.get("link", 0), more.get("info", 0), 8, more.get("entry", 0))
            headers.append(struct.pack("<IIQQQQIIQQ", *fields, *end))

        put(1, _SHT_STRTAB, bytes(self._strings))
        put(9, _SHT_STRTAB, bytes(names))
        for name, section in rows:
            link = number[section.link]
            put(
                *(name, section.kind, section.data),
                link=link, info=section.info, address=section.address, entry=section.entry,
            )  # fmt: skip
        values = {"shoff": len(out), "shnum": len(headers), "shstrndx": 2} | self.header
        if self.many:
            headers[0] = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, len(headers), 0, 0, 0, 0)
            values["shnum"] = 0
        ident = b"\x7fELF" + bytes([2, 1, 1, 0x33, 7]) + bytes(7)
        out[:64] = struct.pack(
            *("<16sHHIQQQIHHHHHH", ident, 4, EM_CUDA, 1, 0, 0, values["shoff"], 0),
            *(64, 56, 0, 64, values["shnum"], values["shstrndx"]),
        )
        return bytes(out + b"".join(headers))
