"""Sets core_pattern, says each step, and goes back to what was there."""

import errno
import os
import shlex
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from postmortem.errors import EvidenceError
from postmortem.handler import settings
from postmortem.handler.settings import PROGRAM, Settings
from postmortem.readers.corepattern import (
    CORE_PATTERN,
    container_kind,
    destination,
    read_core_pattern,
)

Say = Callable[[str], None]

_PATTERN = f"|{PROGRAM} %P %u %d %t %e"
"""The kernel splits it at its spaces before it puts the values in: %e may hold anything."""
_DEFAULT = "core"
"""The kernel's own; to go back to where ours is set and nobody knows what was before."""
_OTHERS = {"systemd": "systemd-coredump", "apport": "apport", "abrt": "ABRT"}


def current() -> str:
    """Return the core_pattern of this kernel; raises EvidenceError where /proc does not show it."""
    text = read_core_pattern().text
    if text is None:
        raise EvidenceError(str(CORE_PATTERN), "cannot be read", hint="mount /proc")
    return text


def check(*, replace: bool, ours: str) -> str:
    """Return the core_pattern to go back to; raises EvidenceError where ours may not be set.

    `ours` is what it begins with when it is set already.
    """
    _require_writable()
    _require_own_files()
    now = current()
    known = settings.load()
    if now.startswith(ours):
        return known.before if known is not None else _DEFAULT
    other = _OTHERS.get(destination(read_core_pattern()).handler)
    if other is not None and not replace:
        raise EvidenceError(
            "core_pattern",
            f"cores go to {other}, which is left as it is",
            hint="postmortem core reads what it stores; --replace sets core_pattern all the same",
        )
    return now


def install(
    folder: Path, *, most_bytes: int, most_days: float, replace: bool, dry: bool, say: Say
) -> None:
    """Have the kernel hand each core to us; raises EvidenceError where that cannot be.

    Calling it again changes the limits and nothing else.
    """
    _require_writable()
    _require_same_view()
    before = check(replace=replace, ours=f"|{PROGRAM}")
    wanted = Settings(str(folder), most_bytes, most_days, before, _PATTERN)
    now = current()
    steps = (
        f"folder {folder}: mode 0755, of root",
        f"{PROGRAM}: what the kernel starts, mode 0700",
        f"core_pattern: {now!r} -> {_PATTERN!r}" if now != _PATTERN else "core_pattern: is set",
    )
    if dry:
        check_folder(folder)
        for step in steps:
            say(f"would do: {step}")
        return
    try:
        make_folder(folder)
        say(steps[0])
        settings.save(wanted)
        words = shlex.join(settings.own_command(["postmortem.handler.taking:main"]))
        settings.write_private(PROGRAM, f'#!/bin/sh\nexec {words} "$@"\n', 0o700)
        say(steps[1])
        set_pattern(_PATTERN)
        say(steps[2])
    except OSError as error:
        if current() != _PATTERN:
            settings.forget()
        raise EvidenceError(
            str(error.filename or folder), f"cannot be written: {error.strerror}"
        ) from error


def undo(*, dry: bool, say: Say) -> None:
    """Set core_pattern as it was before; raises EvidenceError where that cannot be."""
    known = settings.load()
    if known is None:
        say("no handler of postmortem is installed; nothing is changed")
        return
    _require_writable()
    now = current()
    if now != known.pattern:
        step = f"core_pattern: stays {now!r}, which somebody else has set since"
    else:
        step = f"core_pattern: {now!r} -> {known.before!r}"
    if dry:
        say(f"would do: {step}")
        return
    if now == known.pattern:
        set_pattern(known.before)
    say(step)
    settings.forget()
    say(f"cores in {known.folder} stay")


def set_pattern(text: str) -> None:
    """Set core_pattern; raises EvidenceError where the kernel keeps another one."""
    with CORE_PATTERN.open("w") as stream:
        stream.write(text + "\n")
    if current() != text:
        raise EvidenceError(str(CORE_PATTERN), f"the kernel made {current()!r} of {text!r}")


def make_folder(folder: Path) -> None:
    """Make the folder for cores; raises EvidenceError where others could write to it."""
    check_folder(folder)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    check_folder(folder)


def check_folder(folder: Path) -> None:
    """Refuse a folder that others may write to, or could put another one in the place of."""
    real = folder.resolve()
    for path in (folder, *folder.parents, real, *real.parents):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise EvidenceError(str(path), f"cannot be looked at: {error.strerror}") from error
        # Of a folder such as /tmp nobody but its owner can take what is in it away.
        kept = path not in (folder, real) and status.st_mode & stat.S_ISVTX
        shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not kept
        if status.st_uid not in (0, os.geteuid()) or (shared and not stat.S_ISLNK(status.st_mode)):
            raise EvidenceError(
                str(path),
                "others may write to it, and root writes there",
                hint="name a folder that belongs to root alone, or chmod go-w",
            )
    if real.exists() and not real.is_dir():
        raise EvidenceError(str(folder), "is not a folder")


def _require_writable() -> None:
    try:
        CORE_PATTERN.open("r+").close()
    except OSError as error:
        what, hint = f"cannot be written: {error.strerror}", None
        if error.errno == errno.EROFS:
            what = "/proc/sys is mounted read-only here"
            hint = "run it on the host, or in a privileged container"
        elif error.errno in (errno.EACCES, errno.EPERM):
            what = "only root of the host may set it"
            hint = "sudo postmortem install-handler"
        raise EvidenceError(str(CORE_PATTERN), what, hint=hint) from None


def _require_same_view() -> None:
    """Refuse where the kernel would not find our program: it looks where its own threads look."""
    thread = Path("/proc/2")
    try:
        if (thread / "comm").read_text() == "kthreadd\n":
            same = os.path.samestat((thread / "root").stat(), Path("/").stat())
            same &= (thread / "ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink()
        else:
            same = container_kind() is None
    except OSError:
        same = container_kind() is None
    if not same:
        raise EvidenceError(
            "core_pattern",
            "the kernel starts the handler outside of this container, where postmortem is not",
            hint="run it on the host; or --socket PATH, in a folder that the host has by that name",
        )


def _require_own_files() -> None:
    """Refuse where another user could change what the kernel will run as root."""
    package = Path(__file__).resolve().parents[1]
    for start in (package, Path(sys.executable), Path(os.path.realpath(sys.executable))):
        for path in (start, *start.parents):
            status = path.stat()
            shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if status.st_uid != 0 or (shared and not status.st_mode & stat.S_ISVTX):
                raise EvidenceError(
                    str(path),
                    "belongs to a user, or others may write to it; the kernel would run it as root",
                    hint="install postmortem as root (sudo python3 -m venv /opt/postmortem), and "
                    "run that one",
                )
