"""What /proc says of one process, again and again, for some microseconds a look.

The files stay open: they are the process's own, so that another one which gets its pid is never
taken for it, and no path is looked up again.
"""

import os
import re
import time

from postmortem.facts.watch import Sample

_FIELDS = re.compile(
    rb"^(VmLck|VmPin|VmSwap|VmRSS|RssAnon|RssFile|RssShmem|Threads):\s+(\d+)", re.M
)
_KIB = 1024
_MOST_OPEN = 256
_PAGE = os.sysconf("SC_PAGE_SIZE")
_DEAR = 1000.0
"""What costs a second is done again no sooner than after so many: 0.1 % of one core."""
_open_files = 0


class Process:
    """One process that is watched."""

    def __init__(self, pid: int, name: str, rank: int | None) -> None:
        """Raises OSError: it has ended."""
        self.pid, self.name, self.rank = pid, name, rank
        self.pss = self.descriptors = self.gpu = -1
        self._files: tuple[int, int] | None = None
        self._next_pss = 0.0
        self._last: Sample | None = None
        self._looks = 0
        global _open_files
        if _open_files < _MOST_OPEN:
            few, all_of_it = (_open(f"/proc/{pid}/{name}") for name in ("statm", "status"))
            self._files = (few, all_of_it)
            _open_files += 1

    def close(self) -> None:
        """Let go of the process."""
        global _open_files
        if self._files is not None:
            for number in self._files:
                os.close(number)
            self._files = None
            _open_files -= 1

    def look(self, at: float) -> Sample | None:
        """Return what it holds; None when it has ended, or is a zombie.

        What costs a tenth (statm) is asked each time, and all (status) each fifth time or when it
        has changed by 1 MiB.
        """
        self._looks += 1
        last = self._last
        try:
            if last is not None and self._looks % 5:
                words = self._read(0, "statm").split()
                rss = int(words[1]) * _PAGE
                if rss == 0:
                    return None
                if abs(rss - last.rss_bytes) < 1 << 20:
                    new = {"time": at, "pss_bytes": self.pss, "descriptors": self.descriptors}
                    return Sample(**(last.__dict__ | new | {"gpu_bytes": self.gpu}))
            self._last = self._all(at)
        except (OSError, IndexError, ValueError):  # ESRCH: it has ended, whoever has its pid now
            return None
        return self._last

    def _read(self, number: int, name: str) -> bytes:
        if self._files is not None:
            return os.pread(self._files[number], 4096, 0)
        with open(f"/proc/{self.pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
            return file.read(4096)

    def _all(self, at: float) -> Sample | None:
        found = {name: int(number) for name, number in _FIELDS.findall(self._read(1, "status"))}
        if b"VmRSS" not in found:
            return None
        return Sample(
            at,
            found[b"VmRSS"] * _KIB,
            found.get(b"RssAnon", 0) * _KIB,
            found.get(b"RssFile", 0) * _KIB,
            found.get(b"RssShmem", 0) * _KIB,
            (found.get(b"VmLck", 0) + found.get(b"VmPin", 0)) * _KIB,
            found.get(b"VmSwap", 0) * _KIB,
            self.pss,
            self.descriptors,
            found.get(b"Threads", -1),
            self.gpu,
        )

    def children(self) -> list[int]:
        """Return what its main thread has started and not yet buried."""
        try:
            with open(f"/proc/{self.pid}/task/{self.pid}/children", "rb") as file:  # noqa: PTH123
                return [int(word) for word in file.read(1 << 16).split()]
        except (OSError, ValueError):
            return []

    def count_descriptors(self) -> None:
        """Count the open files; they stay -1 where that is not allowed."""
        try:
            self.descriptors = len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208
        except OSError:
            self.descriptors = -1

    def measure_pss(self) -> None:
        """Ask for the proportional share, if it is time: the kernel walks all pages for it."""
        now = time.monotonic()
        if now < self._next_pss:
            return
        try:
            with open(f"/proc/{self.pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
                text = file.read(4096)
            found = re.search(rb"^Pss:\s+(\d+)", text, re.M)
            self.pss = int(found[1]) * _KIB if found else -1
        except OSError:
            self.pss = -1
        self._next_pss = now + max(5.0, (time.monotonic() - now) * _DEAR)


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
