"""What a status says of how a process ended."""

import signal

from postmortem.readers.siginfo import signal_name


def ended(code: int) -> tuple[int | None, str | None]:
    """Return exit code and signal of a status as Python's subprocess has it."""
    return (None, signal_name(-code)) if -signal.NSIG < code < 0 else (code, None)


def ended_in_shell(code: int) -> tuple[int | None, str | None]:
    """Return exit code and signal of a status as a shell has it: 128 and the signal's number.

    Real-time signals end nobody; Fortran's libraries exit with numbers like 174.
    """
    return ended(128 - code) if 128 < code < 128 + signal.SIGRTMIN - 2 else ended(code)
