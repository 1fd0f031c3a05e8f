"""What a status, or a line about a process, says of how it ended."""

import signal
from collections.abc import Callable, Mapping
from typing import TypeAlias

from postmortem.facts.exits import LogExit
from postmortem.facts.signature import Match
from postmortem.readers.siginfo import signal_name

Status: TypeAlias = Callable[[int], tuple[int | None, str | None]]
_MOST_DIGITS = 11
_SIGNALS: Mapping[str, str] = {
    "Killed": "SIGKILL",
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Abort trap": "SIGABRT",
    "Trace/BPT trap": "SIGTRAP",
    "Bus error": "SIGBUS",
    "Terminated": "SIGTERM",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Bad system call": "SIGSYS",
    "File size limit exceeded": "SIGXFSZ",
    "CPU time limit exceeded": "SIGXCPU",
    "Trace/breakpoint trap": "SIGTRAP",
    "User defined signal 1": "SIGUSR1",
    "User defined signal 2": "SIGUSR2",
    "Hangup": "SIGHUP",
    "Quit": "SIGQUIT",
    "Alarm clock": "SIGALRM",
    "Interrupt": "SIGINT",
    # As zsh calls them.
    "killed": "SIGKILL",
    "segmentation fault": "SIGSEGV",
    "abort": "SIGABRT",
    "bus error": "SIGBUS",
    "trace trap": "SIGTRAP",
    "illegal hardware instruction": "SIGILL",
    "floating point exception": "SIGFPE",
}


def ended(code: int) -> tuple[int | None, str | None]:
    """Return exit code and signal of a status as Python's subprocess has it."""
    return (None, signal_name(-code)) if -signal.NSIG < code < 0 else (code, None)


def ended_in_shell(code: int) -> tuple[int | None, str | None]:
    """Return exit code and signal of a status as a shell has it: 128 and the signal's number.

    Real-time signals end nobody; Fortran's libraries exit with numbers like 174.
    """
    return ended(128 - code) if 128 < code < 128 + signal.SIGRTMIN - 2 else ended(code)


def ended_in_pbs(code: int) -> tuple[int | None, str | None]:
    """Return exit code and signal of a status as PBS has it: 256 and the signal's number."""
    return ended(256 - code) if code > 256 else ended(code)


def exit_of(file: str, number: int, launcher: str, said: Match, status: Status = ended) -> LogExit:
    """Return the end that a line tells of, by the names of its groups.

    A signal is told by its name, its number, a shell's words for it, or a group with its name. It
    weighs more than a code, and so does a limit of memory.
    """
    code, name = status(_number(said["code"])) if said["code"] else (None, None)
    word = said["signal"] or next((one for one in said.captures if one.startswith("SIG")), "")
    if word.isdecimal():
        code, name = None, signal_name(_number(word))
    elif word:
        code, name = None, _SIGNALS.get(word, word)
    memory = bool(said["memory"])
    if memory and (name is None or launcher == "Slurm"):
        code, name = None, "SIGKILL"
    return LogExit(
        file,
        number,
        rank=_number(said["rank"]) if said["rank"] else None,
        local_rank=_number(said["local"]) if said["local"] else None,
        pid=_number(said["pid"] or "0") or None,
        code=code,
        signal=name,
        died=code is None and name is None,
        launcher=launcher,
        stopped=bool(said["stopped"]),
        memory=memory,
        host=said["host"] or None,
        output=said["output"] or None,
        process=said["process"],
        times=_number(said["times"] or "1"),
    )


def _number(text: str) -> int:
    return int(text[:_MOST_DIGITS])
