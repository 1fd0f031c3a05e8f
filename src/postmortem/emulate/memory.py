"""Little memory: a control group in which the kernel kills, else a limit at which malloc fails."""

import os
import resource
import time

from postmortem import text
from postmortem.emulate.fault import CannotEmulate, Fault
from postmortem.run.memory import MemoryLimit, NoLimit, limit_memory

_EMPTY_SECONDS = 5.0


class Memory(Fault):
    """`size` bytes: of memory in use for all processes, or of addresses for each of them."""

    def __init__(self, size: int, *, addresses: bool) -> None:
        self._size = size
        self._addresses = addresses
        self._limit: MemoryLimit | None = None

    def enter(self) -> None:
        """Make the control group; without one each process has a limit of its own."""
        why = ""
        if not self._addresses:
            try:
                self._limit = limit_memory(self._size)
            except NoLimit as error:
                why = f" (no control group: {error})"
        if self._limit is None:
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            if hard != resource.RLIM_INFINITY and self._size > hard:
                raise CannotEmulate(f"the limit of addresses is {hard} bytes already")
            self.limits = {resource.RLIMIT_AS: (self._size, self._size)}
            self.happened = (
                f"{self._size} bytes of addresses for each process{why}: an allocation fails "
                "where the kernel would have killed"
            )
            return
        self.cgroup, self.prefix = self._limit.cgroup, self._limit.prefix
        self.happened = (
            f"{text.size(self._size)} of memory for the command and all that it starts "
            f"({self._limit.how})"
        )

    def undo(self) -> None:
        """Remove the control group."""
        if self._limit is None:
            return
        until = time.monotonic() + _EMPTY_SECONDS
        self._limit.remove()
        while self.cgroup and os.path.isdir(self.cgroup) and time.monotonic() < until:  # noqa: PTH112
            time.sleep(0.02)  # its last process is not quite gone
            self._limit.remove()
