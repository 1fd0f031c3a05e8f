"""A folder on a full or a read-only file system."""

import contextlib
import os

from postmortem import text
from postmortem.emulate.fault import CannotEmulate, Fault
from postmortem.emulate.namespaces import (
    BIND,
    NEW_MOUNTS,
    READ_ONLY,
    REMOUNT,
    enter,
    mount,
    mounts_below,
)

_KEPT_FLAGS = 2 | 4 | 8 | 1024 | 2048
"""nosuid, nodev, noexec, noatime, nodiratime: as in statvfs(3) and in mount(2)."""
_RELATIME = (4096, 1 << 21)


class Disk(Fault):
    """A folder with room for `leave` bytes more, or in which nothing can be written.

    What is in it is seen. With room, an overlay takes what the command writes, in memory: it is
    gone when the command is over. `empty` hides what is there, and needs no overlay.
    """

    def __init__(self, path: str, leave: int, *, read_only: bool, empty: bool, slow: bool) -> None:
        self._path = os.path.realpath(path)
        self._shown = path
        self._leave = leave
        self._read_only = read_only
        self._empty = empty
        self._slow = slow
        room = f"had room for {text.size(leave)}" if leave else "was full"
        gone = f"{room}; what was written there is gone"
        self.happened = f"{path} {'was read-only' if read_only else gone}"

    def enter(self) -> None:
        """Mount it."""
        self._check()
        enter(NEW_MOUNTS, "mount namespace")
        try:
            if self._read_only:
                self._make_read_only()
            else:
                self._make_full()
            os.chdir(os.getcwd())  # noqa: PTH109  else relative paths go past the mount
        except OSError as error:
            hint = "" if self._read_only or self._empty else "; --empty needs no overlay"
            raise CannotEmulate(
                f"{self._shown}: it cannot be mounted over: {error.strerror}{hint}"
            ) from None

    def _check(self) -> None:
        if self._slow:
            raise CannotEmulate(
                "--slow: writes go to memory first, and what limits a device (io.max of a control "
                "group, dm-delay) needs its own rights; nothing here slows one folder honestly"
            )
        if not os.path.isdir(self._path):  # noqa: PTH112
            raise CannotEmulate(f"{self._shown}: is not a folder")
        if self._path == "/":
            raise CannotEmulate("/: the root cannot be mounted over; name the folder that matters")
        below = mounts_below(self._path)
        if below and not self._empty:
            raise CannotEmulate(
                f"{self._shown}: {below[0]} is a file system of its own in it; name a folder that "
                "has none"
            )

    def _make_read_only(self) -> None:
        mount(self._path, self._path, None, BIND)
        has = os.statvfs(self._path).f_flag
        flags = has & _KEPT_FLAGS | (_RELATIME[1] if has & _RELATIME[0] else 0)
        mount(None, self._path, None, BIND | REMOUNT | READ_ONLY | flags)

    def _make_full(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        room = max(1, -(-self._leave // page)) * page
        status = os.stat(self._path)  # noqa: PTH116
        lower = os.open(self._path, os.O_PATH)
        mount("postmortem", self._path, "tmpfs", 0, f"size={room},mode=755")
        top = self._path
        if not self._leave:
            with open(f"{top}/.postmortem-filler", "wb") as stream:  # noqa: PTH123
                stream.write(b"\1" * page)
        if self._empty:
            _own_as(top, status)
        else:
            for name in ("upper", "work"):
                os.mkdir(f"{top}/{name}")  # noqa: PTH102
            _own_as(f"{top}/upper", status)
            self._overlay(
                f"lowerdir=/proc/self/fd/{lower},upperdir={_quoted(top)}/upper,"
                f"workdir={_quoted(top)}/work"
            )
        os.close(lower)

    def _overlay(self, options: str) -> None:
        try:
            mount("postmortem", self._path, "overlay", 0, options)
        except PermissionError:  # in a user namespace it may keep its notes in user.* alone
            mount("postmortem", self._path, "overlay", 0, f"{options},userxattr")


def _own_as(path: str, status: os.stat_result) -> None:
    with contextlib.suppress(OSError):  # in a user namespace there are no other users
        os.chown(path, status.st_uid, status.st_gid)
    os.chmod(path, status.st_mode & 0o7777)  # noqa: PTH101


def _quoted(path: str) -> str:
    """Return a path as overlay's options have it."""
    return "".join(f"\\{letter}" if letter in "\\,:" else letter for letter in path)
