"""Which version of a library ran, as far as the evidence says."""

from __future__ import annotations

from postmortem.records import record


@record
class LibraryVersion:
    """One version, and what names it."""

    library: str
    """``"nccl"``, ``"torch"``, ``"cpython"``, ``"glibc"``, ``"driver"`` …"""
    version: str
    """As written: ``"2.27.5+cuda12.4"``."""
    where: str
    """``"NCCL's own line"``, ``"node1.log:12"``, the path of a module."""
    sure: bool = True
    """False where it is what is installed or listed, which need not be what ran."""


@record
class Versions:
    """All of them; a library may have several where hosts differ."""

    items: tuple[LibraryVersion, ...] = ()
    machine: str | None = None
    """``"x86_64"`` or ``"aarch64"``; None where nothing says."""
    variables: tuple[tuple[str, str], ...] = ()
    """Settings that a log shows, where there is no process to ask."""

    def of(self, library: str) -> tuple[LibraryVersion, ...]:
        """Return what is known of one library."""
        return tuple(item for item in self.items if item.library == library)


@record
class OddVersion:
    """A rank that names another version of something than all others do."""

    rank: int
    library: str
    """As they name it: any word."""
    version: str
    usual: str
    """What the others name."""
    others: int
    """How many they are."""
    where: str

    @property
    def words(self) -> str:
        """What it has and the others have not."""
        ranks = f"the {self.others} other ranks {self.usual}"
        return f"rank {self.rank} alone has {self.library} {self.version}, {ranks}"
