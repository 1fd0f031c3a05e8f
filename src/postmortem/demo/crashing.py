"""Running a sample program until it crashes, and getting hold of its core."""

import contextlib
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from postmortem.errors import DebuggerError, EvidenceError
from postmortem.knowledge.record_hint import CORES_AS_FILES
from postmortem.readers.corefind import CoreSearch, core_pid, find_core_of

_RUN_SECONDS = 60.0
_GDB_SECONDS = 180.0
_OUTPUT_BYTES = 1 << 20
_FILTER = Path("/proc/self/coredump_filter")
_READY = re.compile(rb"^ready (\d+)$", re.MULTILINE)
# The sample must die as a plain training script does: no handler that prints, no other allocator;
# and gdb must not download symbols while it runs it
_REMOVED = (
    "PYTHONFAULTHANDLER",
    "PYTHONDEVMODE",
    "PYTHONMALLOC",
    "MALLOC_CHECK_",
    "DEBUGINFOD_URLS",
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Crashed:
    """A sample program that has died, and its core."""

    kind: str
    pid: int
    core: Path
    by_gdb: bool
    """gdb wrote the core at the fault, because the kernel's could not be had."""


def crash(kind: str, folder: Path, *, gdb: str | None = None, say: Say) -> Crashed:
    """Crash the sample program of a kind in a folder and return its core.

    The kernel's core is taken wherever it went; where none can be had, gdb is asked to write one
    at the moment of the fault. Raises EvidenceError that says why there is none and what mends it.
    """
    started = time.time()
    command = [sys.executable, str(_own_copy(kind, folder))]
    with _limits_raised() as limit:
        ran = _run(command, folder, _RUN_SECONDS)
    if ran.status >= 0:
        what = f"the sample program {kind!r} did not crash (exit status {ran.status}): {ran.tail()}"
        raise EvidenceError("demo", what, hint="this should not happen: please report it")
    name = signal.Signals(-ran.status).name
    said = replace(ran, output=_READY.sub(b"", ran.output))
    words = f" (its last words: {said.tail()})" if said.output.strip() else ""
    say(f"process {ran.pid} died of {name}{words}; looking for its core")
    found = find_core_of(
        ran.pid,
        started_at=started,
        cwd=folder,
        command=Path(sys.executable).name,
        copy_to=folder,
        wait_seconds=0.0 if limit == 0 else 15.0,
    )
    had = Crashed(kind, ran.pid, found.path, by_gdb=False) if found.path is not None else None
    if had is not None and not _is_cut(had.core, limit):
        return had
    why, hint = _why_no_core(found, limit)
    if had is not None:
        why = f"the hard limit of this session cut its core to {limit:,} bytes (ulimit -Hc)"
    say(f"{why}; trying again with gdb, which can write a core itself")
    try:
        return crash_under_gdb(kind, folder, _gdb_command(gdb))
    except DebuggerError as error:
        if had is not None:
            say(f"{error.what}; explaining what there is of the core")
            return had  # what is left of it is explained all the same
        raise EvidenceError("demo", f"{why}; and {error.what}", hint=hint) from error


def _is_cut(core: Path, limit: int) -> bool:
    """Return whether a core is as large as it may be: the kernel stops in the page of the limit.

    Holes count for nothing, neither there (fs/coredump.c, dump_skip) nor here.
    """
    status = core.stat()
    written = min(status.st_size, status.st_blocks * 512)
    return limit >= 0 and written + resource.getpagesize() >= limit


def program(kind: str) -> Path:
    """Return the sample program of a kind."""
    return Path(__file__).with_name(f"{kind}.py")


def _own_copy(kind: str, folder: Path) -> Path:
    """Return a sample program outside of site-packages: its frames are the user's own then."""
    return Path(shutil.copy(program(kind), folder))


def crash_under_gdb(kind: str, folder: Path, gdb: tuple[str, ...]) -> Crashed:
    """Run a sample program under gdb and let gdb write its core at the fault.

    Raises DebuggerError when gdb may not trace processes here, or writes nothing.
    """
    core = folder / "core.by-gdb"
    settings = (
        "set confirm off",
        "set pagination off",
        "set startup-with-shell off",
        # refused in many containers, and then only a warning; the sample does not need it
        "set disable-randomization off",
    )
    steps = (*settings, "run", f"generate-core-file {core}", "kill")
    options = [word for step in steps for word in ("-ex", step)]
    command = [*gdb, "-nx", "-q", "-batch", *options, "--args", sys.executable]
    command.append(str(_own_copy(kind, folder)))
    ran = _run(command, folder, _GDB_SECONDS)
    if not core.is_file() or core.stat().st_size == 0:
        raise DebuggerError(f"gdb could not write one either: {ran.tail()}")
    return Crashed(kind, core_pid(core) or 0, core, by_gdb=True)


def _gdb_command(explicit: str | None) -> tuple[str, ...]:
    from postmortem.readers.gdb.find import find_gdb

    return find_gdb(explicit).start


def _why_no_core(found: CoreSearch, limit: int) -> tuple[str, str | None]:
    if found.destination.handler == "file" and limit == 0:
        why = "no core can be written: the hard limit of this session is 0 (ulimit -Hc)"
        hint = (
            "as root: echo '* hard core unlimited' > /etc/security/limits.d/core.conf, then log in "
            "again; in Docker: docker run --ulimit core=-1"
        )
        return why, hint
    return found.why or "no core was written", found.hint or CORES_AS_FILES


@contextlib.contextmanager
def _limits_raised() -> Iterator[int]:
    """Let children dump core as far as this session may; gives the limit, -1 for unlimited.

    Set in this process and put back, because code between fork and exec is not safe in Python.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        limit = resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
    except (ValueError, OSError):  # only root may go above the hard limit
        limit = hard
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    mask = _with_default_filter()
    try:
        yield limit
    finally:
        # a hard limit that was raised is lowered again; root may do both
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
        if mask is not None:
            _FILTER.write_text(f"{mask:#x}")


def _with_default_filter() -> int | None:
    """Add the kernel's default bits to coredump_filter; returns the mask to put back."""
    try:
        mask = int(_FILTER.read_text(), 16)
        if mask & 0x33 == 0x33:
            return None
        _FILTER.write_text(f"{mask | 0x33:#x}")
    except (OSError, ValueError):
        return None
    return mask


@dataclass(frozen=True, slots=True)
class _Ran:
    pid: int
    status: int
    output: bytes

    def tail(self) -> str:
        """Return its last lines on one line."""
        lines = self.output.decode(errors="replace").strip().splitlines()[-3:]
        return " | ".join(line.strip() for line in lines)[-300:] or "it said nothing"


def _run(command: list[str], folder: Path, seconds: float) -> _Ran:
    """Run a program to its end; one that says "ready PID" is waiting to be killed."""
    env = {name: value for name, value in os.environ.items() if name not in _REMOVED}
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output = _watch(child, time.monotonic() + seconds)
        if output is None:
            raise EvidenceError("demo", f"{command[0]} did not end within {seconds:.0f} s")
        return _Ran(child.pid, child.wait(), output)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _watch(child: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    """Collect what a program says until it ends; None when time is up."""
    assert child.stdout is not None
    output = b""
    killed = False
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                continue
            data = os.read(child.stdout.fileno(), 65536)
            if not data:
                child.wait(max(left, 1.0))
                return output
            output = (output + data)[-_OUTPUT_BYTES:]
            if not killed and (ready := _READY.search(output)):
                killed = True
                os.kill(int(ready[1]), signal.SIGABRT)
    return None
