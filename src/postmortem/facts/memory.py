"""Address space: modules, single addresses, totals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal

from postmortem.records import record
from postmortem.text import Pointer

ModuleStatus = Literal["ok", "missing", "mismatch", "unverified"]


@record
class Module:
    """An ELF file that the process had mapped, compared with the file of that name on disk.

    `status` is ``ok`` (build IDs equal), ``mismatch`` (another build is there now: its symbols
    would lie), ``missing`` (no such file here) or ``unverified`` (no build ID to compare).
    """

    path: str
    start: Pointer
    end: Pointer
    status: ModuleStatus
    build_id: str | None = None
    disk_build_id: str | None = None
    disk_path: str | None = None
    """The file that was read for it (with --sysroot or --python, not `path`); None if none was."""
    bias: int = 0
    """What to add to an address in the file to get the one in the process."""
    has_debug_lines: bool = False
    """Whether DWARF for it is at hand, in the file or beside it under /usr/lib/debug."""
    deleted: bool = False
    """The kernel marked the file as deleted: it was removed or replaced while it was mapped."""

    @property
    def name(self) -> str:
        """File name without folders."""
        return PurePosixPath(self.path).name


@record
class CodeRanges:
    """Where code can be: executable mappings, ``(start, end)`` by address."""

    ranges: tuple[tuple[int, int], ...] = ()

    def __contains__(self, address: int) -> bool:
        from bisect import bisect_right

        index = bisect_right(self.ranges, (address, 1 << 64)) - 1
        return index >= 0 and self.ranges[index][0] <= address < self.ranges[index][1]


@record
class Modules:
    """All modules, by address."""

    items: tuple[Module, ...]

    def __iter__(self) -> Iterator[Module]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def at(self, address: int) -> Module | None:
        """Return the module mapped at an address."""
        return next((m for m in self.items if m.start <= address < m.end), None)

    def find(self, name_prefix: str) -> Module | None:
        """Return the first module whose file name starts so."""
        return next((m for m in self.items if m.name.startswith(name_prefix)), None)


@record
class Address:
    """What lies at one address, and what lies nearest to it.

    Permissions are as of `mmap`: ``"r-x"``. Distances are in bytes.
    """

    value: Pointer
    mapped: bool
    start: Pointer | None = None
    end: Pointer | None = None
    permissions: str | None = None
    kind: str | None = None
    """``"stack"``, ``"thread stack"``, ``"heap"``, ``"anonymous"``, ``"file"``, ``"module"``,
    ``"shared memory"``, ``"device"``, ``"vdso"``."""
    path: str | None = None
    file_offset: int | None = None
    above_start: Pointer | None = None
    """Start of the nearest mapping above, when the address itself is not mapped."""
    above_kind: str | None = None
    below_end: Pointer | None = None
    """End of the nearest mapping below, when the address itself is not mapped."""


@record
class MemoryTotals:
    """How much memory the process had mapped and how much of it the core holds, in bytes."""

    mapped_bytes: int
    dumped_bytes: int
    by_kind: tuple[tuple[str, int], ...]
    """Dumped bytes by kind, largest first."""


@record
class MappedFile:
    """A file under a faulting mapping, as it is on this machine now (not when the fault came)."""

    path: str
    offset: int
    """Where in the file the fault was."""
    exists: bool
    size: int | None = None
    filesystem_free: int | None = None
    filesystem_size: int | None = None
    filesystem_type: str | None = None
    deleted_then: bool = False
    """The kernel marked the file as deleted when it wrote the core."""
    elsewhere: bool = False
    """The core is of another machine: this one cannot tell what is at the path."""


@record
class BinaryFacts:
    """What the linker wrote into a module on disk."""

    path: str
    needed: tuple[str, ...]
    versions: tuple[tuple[str, tuple[str, ...]], ...]
    """Symbol versions that it needs, by library: ``("libstdc++.so.6", ("GLIBCXX_3.4.29",))``."""
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    static_tls: bool = False
    """Built with the initial-exec TLS model (DF_STATIC_TLS)."""
