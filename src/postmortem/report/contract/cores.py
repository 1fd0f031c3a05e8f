"""Kind ``cores``: many cores, folded by their signatures."""

from __future__ import annotations

from postmortem.report.contract import Shape


class FoldedCore(Shape):
    path: str
    time: float
    """when the file was last written"""
    verdict: str
    signal: str | None
    pid: int | None
    rank: int | None
    world_size: int | None
    hostname: str | None
    executable: str | None
    crashed_thread: int | None
    truncated: bool


class Crash(Shape):
    hash: str | None
    """null where no frame of these cores could be read"""
    summary: str
    count: int
    likely_same_as: str | None
    """where all its cores are cut, the hash of the only crash that begins with the same calls"""
    verdict: str
    diagnosis: str | None
    """id of the best diagnosis"""
    example: str
    """the core that `verdict` and `diagnosis` are of: the newest that is whole"""
    first: str
    newest: str
    ranks: list[int]
    hosts: list[str]
    pids: list[int]
    cores: list[FoldedCore]
    """the oldest first"""


class Cores(Shape):
    first: str
    """path of the oldest core of all"""
    signatures: list[Crash]
    """one for each crash, causes before what they brought about, then by number of cores"""
    cores_read: int
    """a copy of another core (a slim one beside the whole one) is counted once"""
    cores_unread: int
