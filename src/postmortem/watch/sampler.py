"""What /proc says of one process, again and again, for 20 µs a look.

The file stays open: it is the process's own, so that another one which gets its pid is never taken
for it, and no path is looked up again.
"""

from __future__ import annotations

import os
import re
import time

from postmortem.facts.watch import Sample

_FIELDS = re.compile(
    rb"^(VmLck|VmPin|VmSwap|VmRSS|RssAnon|RssFile|RssShmem|Threads):\s+(\d+)", re.M
)
_KIB = 1024
_MOST_OPEN = 512
_DEAR = 1000.0
"""What costs a second is done again no sooner than after so many: 0.1 % of one core."""
_open_files = 0


class Process:
    """One process that is watched."""

    def __init__(self, pid: int, name: str, rank: int | None) -> None:
        self.pid, self.name, self.rank = pid, name, rank
        self.pss = self.descriptors = -1
        self._file: int | None = None
        self._next_pss = 0.0
        global _open_files
        if _open_files < _MOST_OPEN:
            self._file = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
            _open_files += 1

    def close(self) -> None:
        """Let go of the process."""
        global _open_files
        if self._file is not None:
            os.close(self._file)
            self._file = None
            _open_files -= 1

    def look(self, at: float) -> Sample | None:
        """Return what it holds; None when it has ended, or is a zombie."""
        try:
            if self._file is not None:
                text = os.pread(self._file, 4096, 0)
            else:
                with open(f"/proc/{self.pid}/status", "rb", buffering=0) as file:  # noqa: PTH123
                    text = file.read(4096)
        except OSError:  # ESRCH: the process has ended, whoever has its pid now
            return None
        found = {name: int(number) for name, number in _FIELDS.findall(text)}
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
        )

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
