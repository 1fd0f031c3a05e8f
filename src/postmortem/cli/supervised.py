"""A command in a child that may die of its evidence, and what is done then.

The child goes on as if nothing had happened: it reads, concludes and writes the report. If a file
is its end (of its memory, its time, or by a signal), another child does the same without it, and
the report of that one tells of the file under its problems.
"""

import os
import signal
import time
from contextlib import suppress
from mmap import mmap

from postmortem import underway
from postmortem.readers.child import MOST_TRIES, Child, Ending, Output, fork, leave_out

_LOOK_SECONDS = 0.25
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SI_KERNEL = 0x80


def supervise() -> int | None:
    """Return None in a child that is to do the work, and its exit code in us when that is done.

    The child has no limits yet: it is to take them upon itself (`child_limits.limit`).
    """
    try:
        return _supervised()
    except OSError as error:
        return _complain(f"no process can be started to read in: {error.strerror}")


def _supervised() -> int | None:
    page = mmap(-1, underway.PAGE_BYTES)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who started us may have ignored it
    tries = 0
    while True:
        output = Output()
        child = fork(page)
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
        if path is None or tries > MOST_TRIES:
            return _unfinished(ending)
        if child.page.consumed:
            what = f"{path}: {ending.why}, and what was read or written cannot be had again"
            return _complain(what, "keep what comes or goes through pipes in files")
        leave_out(path, ending)


def _unfinished(ending: Ending) -> int:
    where = f"{ending.path}: " if ending.path is not None else "after reading: "
    why = ending.why or "the analysis ended"
    if ending.path is None:
        why = why.removesuffix(" to read").replace("the process that read it", "the analysis")
    hint = "more can be allowed: POSTMORTEM_MEMORY=16G, POSTMORTEM_PATIENCE=SECONDS"
    return _complain(where + why, hint)


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


def _complain(what: str, hint: str | None = None) -> int:
    from postmortem.cli.main import NOT_ANALYSED, complain

    complain(what, hint)
    return NOT_ANALYSED
