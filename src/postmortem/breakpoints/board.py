"""Where the ranks tell each other that one of them stands in a debugger.

No collective is used, for its time-out would run: a rank that waits looks again and again. The
words go through the store of PyTorch's process group, which every rank reaches already, or where
there is none through files in a folder of this user.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from typing import Any, Protocol

from postmortem.breakpoints import runtime
from postmortem.breakpoints.place import Place, distributed, identity, is_gone
from postmortem.errors import EvidenceError


class BoardLost(Exception):
    """The words of other ranks can no longer be read: the store's process has ended."""


class Board(Protocol):
    """Short texts by name, which all ranks see."""

    def post(self, name: str, text: str) -> None:
        """Put up a text in place of the one before."""

    def read(self, name: str) -> str | None:
        """Return a text, or None where there is none yet; raises BoardLost."""

    def beside(self) -> Board:
        """Return the same board for another thread, which never waits for this one."""


def find_board(where: Place) -> tuple[Board | None, str | None]:
    """Return the board of this job, or why there is none."""
    if where.world_size == 1:
        return None, None
    if (group := distributed()) is not None:
        return StoreBoard(group.distributed_c10d._get_default_store()), None
    if runtime.VARIABLE in os.environ or where.here == where.world_size:
        try:
            return FolderBoard(_folder_of_job()), None
        except (EvidenceError, OSError) as error:
            return None, str(error)
    return None, (
        "there is no process group yet, and ranks may be on other nodes; call it after "
        f"torch.distributed.init_process_group(), or set {runtime.VARIABLE} to a folder that "
        "all nodes see"
    )


class StoreBoard:
    """A board in the store of a process group."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def post(self, name: str, text: str) -> None:
        """Put up a text; a store that is gone has no readers either."""
        try:
            self._store.set(f"postmortem/{name}", text)
        except RuntimeError as error:
            raise BoardLost(_first_line(error)) from None

    def read(self, name: str) -> str | None:
        """Return a text; asks first whether it is there, for get() would wait for it."""
        key = f"postmortem/{name}"
        try:
            if not self._store.check([key]):
                return None
            return bytes(self._store.get(key)).decode(errors="replace")
        except RuntimeError as error:  # torch.distributed.DistError and its kin
            raise BoardLost(_first_line(error)) from None

    def beside(self) -> StoreBoard:
        """Return the store over a connection of its own, where PyTorch can (2.5)."""
        try:
            return StoreBoard(self._store.clone())
        except (AttributeError, RuntimeError):
            return self


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


class FolderBoard:
    """A board in a folder of one run of a job."""

    def __init__(self, path: str) -> None:
        self._path = path
        os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103
        runtime.write(f"{path}/{os.getpid()}.member", identity())
        atexit.register(self._leave, os.getpid())

    def post(self, name: str, text: str) -> None:
        """Put up a text."""
        runtime.write(f"{self._path}/{name.replace('/', '~')}", text)

    def read(self, name: str) -> str | None:
        """Return a text."""
        return runtime.read(f"{self._path}/{name.replace('/', '~')}")

    def beside(self) -> FolderBoard:
        """Return itself: nobody waits here."""
        return self

    def _leave(self, pid: int) -> None:
        if pid != os.getpid():  # a child of a fork
            return
        # The words stay for those who have not read them; the last one closes the door.
        runtime.remove(f"{self._path}/{pid}.member")
        with contextlib.suppress(OSError):
            names = os.listdir(self._path)  # noqa: PTH208
            if not any(name.endswith(".member") for name in names):
                for name in names:
                    runtime.remove(f"{self._path}/{name}")
                runtime.remove(self._path)


def _folder_of_job() -> str:
    """Return a folder that all ranks of this run agree on, and no other run has."""
    env = os.environ
    parts = [env.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")]
    if not all(parts):
        parts = [env.get("PMIX_NAMESPACE", "")]
    if not all(parts):  # one launcher on one node
        parts = [identity(os.getppid())]
    parts.append(env.get("TORCHELASTIC_RESTART_COUNT", ""))
    import hashlib

    top = runtime.folder()
    _sweep(top)
    return f"{top}/run-{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:16]}"


def _sweep(top: str) -> None:
    """Remove what runs left behind that were killed."""
    for entry in os.scandir(top):
        if not entry.name.startswith("run-") or not entry.is_dir(follow_symlinks=False):
            continue
        names = os.listdir(entry.path)  # noqa: PTH208
        members = [name for name in names if name.endswith(".member")]
        gone = [is_gone(runtime.read(f"{entry.path}/{name}") or "") for name in members]
        if members and all(gone):
            for name in names:
                runtime.remove(f"{entry.path}/{name}")
            runtime.remove(entry.path)
