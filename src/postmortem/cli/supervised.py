"""A command in a child that may die of its evidence, and what is done then.

The child goes on as if nothing had happened: it reads, concludes and writes the report. If a file
is its end (of its memory, its time, or by a signal), another child does the same without it, and
the report of that one tells of the file under its problems.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from mmap import mmap

from postmortem import underway
from postmortem.readers.child import (
    CPU_SECONDS,
    MOST_MEMORY,
    PATIENCE_SECONDS,
    Child,
    Ending,
    Limits,
    Output,
    available_memory,
    fork,
)

_MOST_TRIES = 8
_LOOK_SECONDS = 0.25
_LEAST_MEMORY = 256 << 20
_BYTES_EACH = 8
"""Of memory, for each byte of a file that is named: tables of all calls grow with the log."""
_CPU_SECONDS_EACH = 1e-6
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SI_KERNEL = 0x80
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Unfinished(Exception):
    """No child came to an end; `hint` says what can be done."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


def supervise(names: Iterable[str], *, live: bool, processes: bool) -> int | None:
    """Return None in a child that is to do the work, and its exit code in us when that is done.

    `names` are the files of the command line, `live` whether processes are read, not files,
    `processes` whether files are read that only those may who may trace a process. Raises
    Unfinished.
    """
    limits = _limits([name for name in names if name != "-"], live=live, processes=processes)
    page = mmap(-1, underway.PAGE_BYTES)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who started us may have ignored it
    tries = 0
    while True:
        output = Output()
        child = fork(limits, page)
        if child is None:
            output.hold_back()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return None
        ending = _wait(child)
        output.take_away()
        if ending.code is not None:
            return ending.code
        if ending.signal in _FORWARDED:
            return 128 + ending.signal
        tries += 1
        path = ending.path
        if path is None or tries > _MOST_TRIES:
            raise _unfinished(ending)
        if child.page.consumed:
            what = f"{path}: {ending.why}, and pipes cannot be read or written again without it"
            raise Unfinished(what, "put what comes or goes through pipes into files")
        underway.refused[_mount_of(path) if ending.silent else path] = ending.why or "is unreadable"


def _unfinished(ending: Ending) -> Unfinished:
    where = f"{ending.path}: " if ending.path is not None else "after reading: "
    why = ending.why or "the analysis ended"
    if ending.path is None:
        why = why.removesuffix(" to read").replace("the process that read it", "the analysis")
    hint = "more can be allowed: POSTMORTEM_MEMORY=16G, POSTMORTEM_PATIENCE=SECONDS"
    return Unfinished(where + why, hint)


def _wait(child: Child) -> Ending:
    """Wait for a child; what is sent to us alone is for it."""
    waited = (*_FORWARDED, signal.SIGCHLD)
    began = True
    while True:
        ending = None if began else child.look()  # most are over before the first look
        began = False
        if ending is not None:
            return ending
        if child.page.exit_code is not None and _lingers(child):
            code = child.page.exit_code
            child.kill()
            return Ending(code=code)
        sent = signal.sigtimedwait(waited, _LOOK_SECONDS)
        # What a terminal sends goes to all that run on it: the child has it, too.
        if sent is not None and sent.si_signo in _FORWARDED and sent.si_code != _SI_KERNEL:
            with suppress(ProcessLookupError):
                os.kill(child.pid, sent.si_signo)


def _lingers(child: Child) -> bool:
    end = time.monotonic() + 1.0
    while child.look() is None and time.monotonic() < end:
        time.sleep(0.005)
    return child.look() is None


def _mount_of(path: str) -> str:
    """Return the file system that gave no answer, as a folder; the file where it is the root."""
    from postmortem.readers.files import mount_point

    point = mount_point(os.path.abspath(path))  # noqa: PTH100  which asks no file system
    return path if point in (None, "/") else f"{point}/"


def _limits(names: list[str], *, live: bool, processes: bool) -> Limits:
    size = sum(map(_size, names))
    memory = _asked_memory()
    if memory is None:
        wanted = MOST_MEMORY + _BYTES_EACH * size
        memory = max(_LEAST_MEMORY, min(wanted, available_memory() // 2))
    patience = _asked_patience()
    if live:  # it sleeps between two looks, has deadlines of its own, and needs all rights
        return Limits(memory, None, None, fewer_rights=False)
    return Limits(memory, CPU_SECONDS + _CPU_SECONDS_EACH * size, patience, no_tcp=not processes)


def _size(name: str) -> int:
    try:
        return os.stat(name).st_size  # noqa: PTH116  a name may hold any bytes
    except (OSError, ValueError):
        return 0


def _asked_memory() -> int | None:
    text = os.environ.get("POSTMORTEM_MEMORY", "").strip().upper().removesuffix("B")
    if not text:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1] in _UNITS else (text, "")
    if not number.isdecimal() or not int(number):
        print(f"postmortem: POSTMORTEM_MEMORY={text!r} is not a size such as 8G", file=sys.stderr)
        return None
    return int(number) * _UNITS[unit]


def _asked_patience() -> float:
    text = os.environ.get("POSTMORTEM_PATIENCE", "")
    try:
        seconds = float(text) if text else PATIENCE_SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        print(
            f"postmortem: POSTMORTEM_PATIENCE={text!r} is not a number of seconds", file=sys.stderr
        )
        return PATIENCE_SECONDS
    return seconds
