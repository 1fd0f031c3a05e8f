"""Namespaces of our own (unshare(2)) and mounts in them: what is done there ends with us.

Where this user may not make one, a user namespace is made first, in which the user keeps its
number. Its rights in there end with the exec of the command, which has none that it had not before.
"""

import contextlib
import ctypes
import errno
import os

from postmortem.emulate.fault import CannotEmulate
from postmortem.readers.mounts import mountinfo, mounts_in

NEW_TIME = 0x80
NEW_MOUNTS = 0x20000
NEW_USER = 0x10000000
NEW_NET = 0x40000000

READ_ONLY = 1
REMOUNT = 0x20
BIND = 0x1000
_RECURSIVE = 0x4000
_PRIVATE = 1 << 18

_LIMITS = "/proc/sys/user/max_user_namespaces"


def enter(flags: int, what: str) -> None:
    """Move this process to namespaces of its own; raises CannotEmulate with `what` in it."""
    try:
        _unshare(flags)
    except PermissionError:
        _enter_as_user(flags, what)
    except OSError as error:
        raise CannotEmulate(f"this kernel gives us no {what}: {error.strerror}") from None
    if flags & NEW_MOUNTS:
        mount(None, "/", None, _RECURSIVE | _PRIVATE)


def _enter_as_user(flags: int, what: str) -> None:
    uid, gid = os.geteuid(), os.getegid()
    try:
        _unshare(flags | NEW_USER)
        with contextlib.suppress(OSError):
            _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    except OSError as error:
        raise CannotEmulate(
            f"{what}: this user may not make one, and no user namespace to make it in "
            f"({error.strerror}; see {_LIMITS}, kernel.apparmor_restrict_unprivileged_userns)"
        ) from None


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount something (mount(2)); raises OSError."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    if _libc().mount(*words, ctypes.c_ulong(flags), os.fsencode(data)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def mounts_below(folder: str) -> list[str]:
    """Return what is mounted in a folder, itself not counted."""
    top = folder.rstrip("/") + "/"
    places = (mount.place for mount in mounts_in(mountinfo()))
    return [place for place in places if place.startswith(top) and place != top]


def _unshare(flags: int) -> None:
    if _libc().unshare(flags):
        number = ctypes.get_errno()
        # More than we may have of them (user_namespaces(7)) is told as ENOSPC: no full disk.
        if number == errno.ENOSPC:
            raise OSError(number, "no more namespaces are allowed here")
        raise OSError(number, os.strerror(number))


def _write(path: str, words: str) -> None:
    with open(path, "w") as stream:  # noqa: PTH123
        stream.write(words)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


NAMES = ("user", "mnt", "net", "time")


def links(pid: int | str) -> dict[str, str]:
    """Return which namespaces a process is in; those that cannot be read are left out."""
    found = {}
    for name in NAMES:
        with contextlib.suppress(OSError):
            found[name] = os.readlink(f"/proc/{pid}/ns/{name}")  # noqa: PTH115
    return found
