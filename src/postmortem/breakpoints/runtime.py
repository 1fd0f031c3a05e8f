"""The folder where breakpoints of this user are announced: nobody else can read or plant files.

It has a fixed name, for the job and a terminal that is opened later need not have the same TMPDIR
or XDG_RUNTIME_DIR. `POSTMORTEM_ATTACH_DIR` names another one, which may be shared between nodes.
"""

import contextlib
import os
import stat

from postmortem.errors import EvidenceError

VARIABLE = "POSTMORTEM_ATTACH_DIR"


def folder_path() -> str:
    """Return the folder's path; it need not exist."""
    return os.environ.get(VARIABLE) or f"/tmp/postmortem-{os.geteuid()}"


def folder() -> str:
    """Return the folder, made where it was missing; raises EvidenceError where it is not safe."""
    path = folder_path()
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103
        found = os.lstat(path)
    except OSError as error:
        raise EvidenceError(path, error.strerror or str(error), hint=_HINT) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise EvidenceError(path, "is not a folder of this user", hint=_HINT)
    if found.st_mode & 0o077:
        what = f"others may enter it (mode {stat.S_IMODE(found.st_mode):04o}); tokens lie in it"
        raise EvidenceError(path, what, hint=f"chmod 700 {path}")
    return path


_HINT = f"name a folder of your own, with mode 0700: {VARIABLE}=~/.postmortem"


def write(path: str, text: str) -> None:
    """Write a file that is there whole or not at all, readable by its owner."""
    part = f"{path}.{os.getpid()}.part"
    number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.write(number, text.encode())
    finally:
        os.close(number)
    os.replace(part, path)  # noqa: PTH105


def read(path: str, limit: int = 1 << 16) -> str | None:
    """Return a file's text, or None where there is none that can be read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(number, limit).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(number)


def remove(path: str) -> None:
    """Remove a file or an empty folder, if it is there."""
    with contextlib.suppress(OSError):
        (os.rmdir if os.path.isdir(path) else os.unlink)(path)  # noqa: PTH112
