"""A small /dev/shm: DataLoader workers and NCCL meet the end of it (SIGBUS, ENOSPC)."""

import os

from postmortem import text
from postmortem.emulate.fault import CannotEmulate, Fault
from postmortem.emulate.namespaces import NEW_MOUNTS, enter, mount

PLACE = "/dev/shm"


class Shm(Fault):
    """/dev/shm with `size` bytes, and nothing in it."""

    def __init__(self, size: int) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        self._size = -(-size // page) * page
        self.happened = f"{PLACE} of {text.size(self._size)}"

    def enter(self) -> None:
        """Mount it."""
        enter(NEW_MOUNTS, "mount namespace")
        try:
            mount("postmortem", PLACE, "tmpfs", 0, f"size={self._size},mode=1777")
        except OSError as error:
            raise CannotEmulate(f"{PLACE}: {error.strerror}") from None
