"""Writes the ring file: what was written stays in the page cache, whoever is killed."""

import mmap
import os
import time

from postmortem.facts.watch import Sample
from postmortem.facts.watch_format import (
    CEILING,
    END,
    GONE,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    NAME,
    OF_A_CEILING,
    RECORD_BYTES,
    SAMPLE,
    pack,
)


class Ring:
    """A file of fixed size whose oldest records are overwritten."""

    def __init__(self, path: str, size: int, interval: float) -> None:
        """Raises OSError; a file that is there is replaced."""
        self._count = max(64, (size - HEADER_BYTES) // RECORD_BYTES)
        part = f"{path}.{os.getpid()}.part"
        file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            total = HEADER_BYTES + self._count * RECORD_BYTES
            os.posix_fallocate(file, 0, total)  # a full disk is an error now, not a SIGBUS later
            self._map = mmap.mmap(file, total)
            HEADER.pack_into(self._map, 0, MAGIC, RECORD_BYTES, self._count, time.time(), interval)
            os.replace(part, path)  # noqa: PTH105
        except BaseException:
            os.unlink(part)  # noqa: PTH108
            raise
        finally:
            os.close(file)
        self._number = 0

    def turn(self) -> int:
        """Return how often the ring has come round twice as often: names are due again then."""
        return self._number * 2 // self._count

    def sample(self, pid: int, one: Sample) -> None:
        """Add what a process holds."""
        numbers = (
            one.rss_bytes,
            one.anonymous_bytes,
            one.file_bytes,
            one.shared_bytes,
            one.locked_bytes,
            one.swap_bytes,
        )
        more = (one.pss_bytes, one.descriptors, one.threads, one.gpu_bytes)
        self._add(SAMPLE, one.time, pid, (*numbers, *more))

    def name(self, at: float, pid: int, rank: int | None, name: str) -> None:
        """Add who a process is; a limit's pid is `OF_A_CEILING` and its number."""
        self._add(NAME, at, pid, (), f"{'-' if rank is None else rank} {name}")

    def ceiling(self, at: float, index: int, limit: int, used: int) -> None:
        """Add how much of a limit is used."""
        self._add(CEILING, at, OF_A_CEILING + index, (limit, used))

    def gone(self, at: float, pid: int) -> None:
        """Add that a process has ended."""
        self._add(GONE, at, pid, ())

    def close(self) -> None:
        """Say that the watch ended by itself."""
        self._add(END, time.time(), 0, (), "")
        self._map.close()

    def _add(
        self, kind: int, at: float, pid: int, numbers: tuple[int, ...], text: str = ""
    ) -> None:
        slot = HEADER_BYTES + self._number % self._count * RECORD_BYTES
        self._number += 1
        self._map[slot : slot + RECORD_BYTES] = pack(kind, self._number, at, pid, numbers, text)
