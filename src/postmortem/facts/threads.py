"""Threads and their stacks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Literal

from postmortem.facts.crash import Signal
from postmortem.records import record
from postmortem.text import Pointer


class Trust(StrEnum):
    """How a frame was found, best first (the words of rust-minidump's FrameTrust)."""

    CONTEXT = "context"
    """The registers that the kernel saved."""
    CFI = "cfi"
    """Unwind tables of the module (.eh_frame)."""
    GDB = "gdb"
    """gdb's unwinder, which does not say how."""
    FRAME_POINTER = "frame_pointer"
    SCAN = "scan"
    """A return address found by searching the stack: it may be a leftover of an earlier call."""
    PYTHON = "python"
    """The interpreter's own frame chain."""


@record
class Frame:
    """One call on a stack, innermost first in its thread."""

    function: str
    """Demangled, unshortened; ``"??"`` when no name is known."""
    kind: Literal["native", "python"] = "native"
    pc: Pointer | None = None
    module: str | None = None
    """Path of the module as the process mapped it."""
    module_offset: Pointer | None = None
    """`pc` relative to the module's link-time addresses, as addr2line takes it."""
    file: str | None = None
    line: int | None = None
    inlined: bool = False
    trust: Trust = Trust.CONTEXT
    arguments: tuple[tuple[str, str], ...] = ()
    locals: tuple[tuple[str, str], ...] = ()
    tail_call: bool = False
    """It had left the stack by a jump into the frame above; gdb inferred it from DWARF call sites.
    Like an inlined frame it has no stack frame of its own."""

    @property
    def is_signal(self) -> bool:
        """Whether it is the kernel's call of a signal handler, as gdb, glibc and musl name it."""
        return self.function in _SIGNAL_FRAME


_SIGNAL_FRAME = ("<signal handler called>", "__restore_rt", "__kernel_rt_sigreturn", "restore_rt")
_LIBRARY = (
    *("site-packages/", "dist-packages/", "/lib/python3", "/lib64/python3", "<frozen "),
    *("/python/pyspark/", "/pyspark.zip/"),  # as Spark ships its own
    *("\\Lib\\", "\\lib\\"),  # of Windows, packages too
    *(".pyx", ".pxi"),  # Cython's, as it names them: from the root of the library's sources
)
_PARTS = ("run/hook", "monitor", "breakpoints", "integrations", "scan")
_OURS = tuple(f"/postmortem/{part}/" for part in _PARTS)
"""Folders of this package whose code runs in the user's processes."""
_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "[")
_C_LIBRARY = ("/sysdeps/", "/nptl/", "/csu/", "./signal/", "./malloc/", "./stdlib/", "./misc/")


def of_c_library(source: str) -> bool:
    """Return whether a source file is one of the C library's, as its debug information names it."""
    return any(part in source for part in _C_LIBRARY)


def is_ours(file: str | None) -> bool:
    """Return whether a file of Python is of this package, which watches the user's program."""
    return any(part in (file or "") for part in _OURS)


def at_breakpoint(thread: Thread) -> str | None:
    """Return which part of our breakpoints a thread waits in: ``"session"`` for a terminal,
    ``"waiting"`` for another rank, ``"console"`` for what is typed; None in none of them."""
    files = (f.file or "" for f in thread.frames if f.kind == "python" and is_ours(f.file))
    folder, _, name = next(files, "").rpartition("/")
    return name.removesuffix(".py") if folder.endswith("/breakpoints") else None


def tells_run(thread: Thread) -> bool:
    """Whether its process has failed, and tells `postmortem run` of it."""
    python = (one.file or "" for one in thread.frames if one.kind == "python")
    return next(python, "").endswith("/postmortem/run/hook/_postmortem_hook.py")


def is_own(file: str | None) -> bool:
    """Return whether a file of Python is the user's: no library's, no hook of ours."""
    return not any(part in (file or "") for part in _LIBRARY) and not is_ours(file)


def program_frames(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Return the native frames with a line of source, without those of the system's libraries."""
    return tuple(
        frame
        for frame in frames
        if frame.kind == "native"
        and frame.file
        and frame.line
        and not (frame.module or "").startswith(_SYSTEM)
        and not of_c_library(frame.file)
    )


def own_frames(thread: Thread) -> tuple[Frame, ...]:
    """Return the Python frames outside of libraries, else all of Python, else the program's native
    ones with a line, else all with a name."""
    python = tuple(f for f in thread.frames if f.kind == "python")
    own = tuple(f for f in python if is_own(f.file))
    named = tuple(f for f in thread.frames if f.function != "??")
    return own or python or program_frames(named) or named


@record
class RaisedException:
    """A Python exception that was being raised or handled."""

    type: str
    message: str


@record
class Wait:
    """What a thread waits for, and who holds it where that can be known."""

    what: str
    address: Pointer
    holder: int | None = None
    """Thread that holds it, or whose end a join waits for; None where that is not known."""
    kind: str = "lock"
    """``"mutex"``, ``"python lock"``, ``"gil"``, ``"join"``, ``"rwlock"``, ``"queue"``, …"""
    certain: bool = True
    """Whether the lock itself names its holder; else the evidence in `how` points there."""
    how: str | None = None
    """How the holder was found."""
    held_at: str | None = None
    """Where the holder took a Python lock and still holds it: ``"step (train.py:31)"``."""
    missing_owner: int | None = None
    """Owner that the lock names and that is no thread of the process."""
    timed: bool = False
    """It has a time-out: the thread goes on by itself some time."""

    @property
    def contended(self) -> bool:
        """Whether another thread is in the way, not merely no work to do."""
        known = self.holder is not None or self.missing_owner is not None
        return known or self.kind in ("lock", "mutex", "unowned mutex", "gil", "stdio", "heap")


@record
class Thread:
    """One thread at the moment of the dump."""

    tid: int
    crashed: bool = False
    name: str | None = None
    python_name: str | None = None
    holds_gil: bool = False
    registers: Mapping[str, int] | None = None
    frames: tuple[Frame, ...] = ()
    left_out: int = 0
    """Inner frames that are not in `frames`: those of the signal handler that was called."""
    stopped: str | None = None
    """Why the walk ended before the outermost frame; None when it reached it."""
    skipped_frames: int = 0
    """Frames left out of the middle of a very long stack."""
    skipped_at: int | None = None
    """Index in `frames` of the first frame behind the gap; None when nothing was left out."""
    python_exception: RaisedException | None = None
    waits_for: Wait | None = None
    handles: Signal | None = None
    """The fault, or what another process sent, whose handler it runs: the kernel's own record."""

    @property
    def called(self) -> str | None:
        """The name that Python knows it by, else the kernel's."""
        return self.python_name or self.name

    @property
    def words(self) -> str:
        """``thread 7 "loader"``."""
        return f'thread {self.tid} "{self.called}"' if self.called else f"thread {self.tid}"

    @property
    def handler_index(self) -> int | None:
        """The index of the signal frame: beyond it is the code that the signal hit."""
        return next((i for i, frame in enumerate(self.frames) if frame.is_signal), None)

    def register(self, name: str) -> int | None:
        """Return the value of a register by its name in ptrace's `user_regs_struct`."""
        return self.registers.get(name) if self.registers is not None else None

    def index_of(self, pattern: str, *, within: int | None = None) -> int | None:
        """Return the index of the innermost frame whose function matches the regular expression.

        `within` limits the search to that many innermost frames.
        """
        compiled = re.compile(pattern)
        return next(
            (i for i, f in enumerate(self.frames[:within]) if compiled.search(f.function)), None
        )

    def frame(self, pattern: str, *, within: int | None = None) -> Frame | None:
        """Return the innermost frame whose function matches the regular expression."""
        index = self.index_of(pattern, within=within)
        return None if index is None else self.frames[index]


@record
class AsyncTask:
    """A task of asyncio that has not ended."""

    name: str
    tid: int | None
    """Of the thread that runs its event loop; None where that is not known."""
    running: bool
    """Its innermost frame is on the stack of that thread."""
    frames: tuple[Frame, ...]
    """From what it awaits to its own coroutine."""
    waits_on: str | None = None
    """Type of the future that wakes it: ``"Future"``, ``"Task"``, ``"_GatheringFuture"``."""
    waits_for: tuple[str, ...] = ()
    """Names of the tasks that it awaits, alone or by ``asyncio.gather``."""


@record
class Greenlet:
    """A greenlet that is switched out."""

    name: str | None
    """Its attribute `name`."""
    type: str
    """``"greenlet"``, ``"Greenlet"`` (gevent), ``"Hub"``."""
    main: bool
    """What its thread began with, before it switched to others."""
    tid: int | None
    """Of the thread that it belongs to; None where that is not known."""
    frames: tuple[Frame, ...]
    """From where it will go on to its outermost call."""


@record
class Threads:
    """All threads of the process, the crashed one first if there is one."""

    items: tuple[Thread, ...]
    main_tid: int
    gil: bool = True
    """False in a free-threaded interpreter whose GIL is off: that nobody holds it means nothing."""
    python_states: int | None = None
    """How many thread states the interpreters had; None where these, or the GIL, may be unread."""
    async_tasks: tuple[AsyncTask, ...] = ()
    """Of CPython 3.11 to 3.14."""
    greenlets: tuple[Greenlet, ...] = ()
    """Of greenlet 2.0 and later; in slim cores and free-threaded interpreters none are found."""
    idle_loops: frozenset[int] = frozenset()
    """Threads whose loop of asyncio has no call due, ever, and watches nothing outside."""

    def __iter__(self) -> Iterator[Thread]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def crashed(self) -> Thread | None:
        """The thread that the fatal signal hit; None in a snapshot."""
        return next((t for t in self.items if t.crashed), None)

    @property
    def main(self) -> Thread | None:
        """The thread that the process started with."""
        return next((t for t in self.items if t.tid == self.main_tid), None)

    def others(self) -> tuple[Thread, ...]:
        """All threads but the crashed one."""
        return tuple(t for t in self.items if not t.crashed)
