"""When the stacks of a job are taken, of whom, and until when others wait for it."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

from postmortem.run.family import Family

_MOST = 6
_GAP_SECONDS = 5.0


class Shots:
    """The shots of one run; `released` is called when all that a shot wants to read is read."""

    def __init__(
        self, folder: Path | None, family: Family, poll: select.epoll, released: Callable[[], None]
    ) -> None:
        """Prepare them; without a `folder` none is taken."""
        self._folder = folder
        self._family = family
        self._poll = poll
        self._released = released
        self._again = 0.0
        self._paths: list[Path] = []
        self.pipe = -1
        """Ends when a shot has read all; -1 while none is being read."""
        self.pid: int | None = None
        """Who takes one at this moment."""
        self.until: float | None = None
        """When it has to have read all, and then to have written all."""

    @property
    def reading(self) -> bool:
        """Whether processes are being read."""
        return self.pipe >= 0

    @property
    def written(self) -> tuple[Path, ...]:
        """The reports that are there."""
        return tuple(path for path in self._paths if path.exists())

    def has(self, name: str) -> bool:
        """Return whether one of this name was begun."""
        return any(path.name == name for path in self._paths)

    def take(
        self,
        without: tuple[int, ...] = (),
        held: tuple[int, ...] = (),
        name: str | None = None,
        samples: int = 1,
    ) -> bool:
        """Begin to take the stacks of all others; False where there is nobody, or no more need."""
        from postmortem.run import stacks

        if self._folder is None:
            return False
        if self.pid is not None:
            return self.reading
        command = self._family.command
        others = [
            one
            for one in self._family.members.values()
            if one.pid not in without and (one.is_python or one.rank is not None)
        ]
        # Who only waits for the one that failed (a launcher, a shell) has nothing to tell.
        peers = [one for one in others if one.rank is not None or one.pid != command]
        if name is None and not peers:
            return False
        if not others or len(self._paths) >= _MOST:
            return False
        # Who fails in the wake of another is its victim; what is left of the others then, too.
        if name is None and time.monotonic() < self._again:
            return False
        path = self._folder / "stacks" / (name or f"failure-{len(self._paths) + 1}.json")
        self.pid, self.pipe = stacks.take(stacks.Shot(command, without, held, path, samples))
        self._poll.register(self.pipe, select.EPOLLIN)
        self._family.others.add(self.pid)
        self._paths.append(path)
        now = time.monotonic()
        self._again = now + _GAP_SECONDS
        self.until = now + stacks.LIMIT_SECONDS + 2.5 * (samples - 1)
        return True

    def end(self, *, kill: bool) -> None:
        """Be done with the shot that is being taken: it has ended, or may take no longer."""
        if self.pid is None:
            return
        if kill:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        self._family.others.discard(self.pid)
        self.pid = self.until = None
        self.read()

    def read(self) -> None:
        """Let go on who waits: all that has to be read is read."""
        from postmortem.run import stacks

        if not self.reading:
            return
        if self.pid is not None:
            self.until = time.monotonic() + stacks.WRITING_SECONDS
        if not self._poll.closed:
            self._poll.unregister(self.pipe)
        os.close(self.pipe)
        self.pipe = -1
        self._released()
