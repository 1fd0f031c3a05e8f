"""One core, as the kernel hands it over: a slim core and its verdict, within limits.

It runs as root with an empty environment, and the process that crashed stands still until it has
let go of the stream. So it never waits for long, never starts debuggers, and fills no disk.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from postmortem.handler.settings import Settings, load, own_command
from postmortem.handler.store import make_room
from postmortem.patterns import Pattern
from postmortem.records import record
from postmortem.text import size

DEADLINE_SECONDS = 120
"""After that the kernel ends us, and so the crashed process."""
_VERDICT_SECONDS = 60
_AT_ONCE = 4
"""Cores that are taken at the same time; the ranks of a job die together."""
_WAIT_SECONDS = 20.0
_LEAST_ROOM = 256 << 20
_UNSAFE = Pattern(r"[^A-Za-z0-9._+-]")


@record
class Crash:
    """What the kernel says of the process."""

    pid: int
    """As the host counts it."""
    uid: int
    own: bool
    """Whether its user may read the core: not after setuid, or with capabilities."""
    when: int
    """Seconds since 1970."""
    name: str


def main() -> None:
    """Take the core on standard input; the arguments are %P %u %d %t %e of core_pattern."""
    from postmortem.handler.streams import open_standard_streams

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(DEADLINE_SECONDS)
    os.nice(5)
    open_standard_streams()
    settings = load()
    words = sys.argv[1:]
    if settings is None or len(words) != 5 or not all(word.isdecimal() for word in words[:4]):
        say("core handler: it is not installed as it should be; run postmortem install-handler")
        return
    pid, uid, dumped, when = map(int, words[:4])
    take(0, Crash(pid, uid, dumped == 1, when, words[4]), settings)


def take(descriptor: int, crash: Crash, settings: Settings) -> None:
    """Write the slim core and the verdict of one crash; what goes wrong is said, never raised.

    `descriptor` is closed as soon as nothing more of the process is needed.
    """
    try:
        _take(descriptor, crash, settings)
    except Exception as error:
        say(f"core of {crash.name} (pid {crash.pid}): {error}")


def _take(descriptor: int, crash: Crash, settings: Settings) -> None:
    folder = Path(settings.folder)
    make_room(folder, settings.most_bytes, settings.most_days)
    with _slot(folder, "core") as free:
        if not free:
            say(f"core of {crash.name} (pid {crash.pid}): dropped, too many crash at once")
            return
        room = shutil.disk_usage(folder).free
        if room < _LEAST_ROOM:
            say(f"core of {crash.name} (pid {crash.pid}): dropped, {size(room)} free at {folder}")
            return
        core, root = _write(descriptor, crash, folder)
        if crash.own:
            with contextlib.suppress(OSError):  # a user that this namespace does not know
                os.chown(core, crash.uid, -1, follow_symlinks=False)
    with _slot(folder, "verdict"):  # nobody stands still for it; where none is free it goes on
        try:
            told, may_have = _explain(core, root, crash)
        finally:
            if root >= 0:
                os.close(root)
        if may_have:
            os.chown(told, crash.uid, -1, follow_symlinks=False)
        make_room(folder, settings.most_bytes, settings.most_days)
    say(f"{_first_line(told)} (core of {crash.name}, pid {crash.pid}: {core})")


def _write(descriptor: int, crash: Crash, folder: Path) -> tuple[Path, int]:
    """Return the slim core, and the root of the process's container; -1 where it has none."""
    from postmortem.readers.slim_writing import SlimOptions, write_slim_of_stream

    name = _UNSAFE.sub("_", crash.name)[:64] or "unknown"
    out = folder / f"core.{name}.{crash.pid}.{crash.when}.slim{_suffix()}"
    root = _root_of(crash.pid)
    with contextlib.ExitStack() as open_until_done:
        stream = open_until_done.enter_context(FileIO(os.dup(descriptor), "rb"))
        open_until_done.callback(_let_go, descriptor)
        sysroot = None if root < 0 else f"/proc/self/fd/{root}"
        outcome = write_slim_of_stream(
            stream.fileno(), out, SlimOptions(pid=crash.pid, sysroot=sysroot)
        )
    for problem in outcome.problems:
        say(f"core of {crash.name} (pid {crash.pid}): {problem.where}: {problem.what}")
    return out if out.exists() else out.with_suffix(""), root


def _let_go(descriptor: int) -> None:
    """Have the kernel go on; the number stays taken."""
    nowhere = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _root_of(pid: int) -> int:
    """Return a descriptor of the root of a process in another mount namespace; -1 for our own."""
    try:
        if os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):  # noqa: PTH115
            return -1
        return os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1


def _suffix() -> str:
    from postmortem.errors import EvidenceError
    from postmortem.readers.packing import require_encoder

    try:
        require_encoder("zstd")
    except EvidenceError:
        return ".gz"
    return ".zst"


def _explain(core: Path, root: int, crash: Crash) -> tuple[Path, bool]:
    """Write the report on a core beside it; return it, and whether the core's user may have it.

    A report quotes sources, which a core may name as it likes: it is made with the rights of that
    user. Where that cannot run us, it is made with ours, and is ours alone.
    """
    told = core.with_name(core.name.partition(".slim")[0] + ".txt")
    words = ["core", str(core), "--engine", "native"]
    if root >= 0:
        words += ["--sysroot", f"/proc/self/fd/{root}"]
    keep = (root,) if root >= 0 else ()
    if crash.own and _report(words, told, keep, crash.uid):
        return told, True
    _report(words, told, keep, os.geteuid())
    return told, False


def _report(words: list[str], told: Path, keep: tuple[int, ...], uid: int) -> bool:
    """Write a report as a user, readable by its owner only; return whether there is one."""
    who: dict[str, Any] = {}
    if uid != os.geteuid():
        who = {"user": uid, "group": _group_of(uid), "extra_groups": []}
    descriptor = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        try:
            done = subprocess.run(
                own_command(["postmortem.entry:run", *words]),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=_VERDICT_SECONDS,
                pass_fds=keep,
                check=False,
                **who,
            )
        except OSError:  # it may not enter the folder that we run from
            return False
    return done.returncode in (0, 1)


def _group_of(uid: int) -> int:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:  # of a container
        return uid


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as stream:
        return stream.readline(2000).strip() or "no verdict"


@contextlib.contextmanager
def _slot(folder: Path, kind: str) -> Iterator[bool]:
    """Wait for one of a few places; False where none gets free in time."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    files = [os.open(folder / f".{kind}-{number}", flags, 0o600) for number in range(_AT_ONCE)]
    try:
        until = time.monotonic() + _WAIT_SECONDS
        while not (free := any(map(_locked, files))) and time.monotonic() < until:
            time.sleep(0.05)
        yield free
    finally:
        for one in files:
            os.close(one)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def say(words: str) -> None:
    """Say something where the administrator looks for it: for a handler, the kernel's log."""
    from postmortem.render.safe import line

    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"postmortem: {line(words)}\n")
            sys.stderr.flush()
