"""Python's own functions that end the process, seen from the C functions behind them."""

from postmortem.diagnose.core.owners import file_name
from postmortem.diagnose.core.stacks import plain, python_index
from postmortem.diagnose.names import clip
from postmortem.facts.threads import Thread

# Modules/posixmodule.c and Modules/signalmodule.c: NAME is what Argument Clinic makes, NAME_impl
# what was written by hand; compilers inline one into the other.
_FUNCTIONS = {
    "os_abort": "os.abort",
    "os_kill": "os.kill",
    "os_killpg": "os.killpg",
    "signal_raise_signal": "signal.raise_signal",
    "signal_pthread_kill": "signal.pthread_kill",
    "signal_alarm": "signal.alarm",
    "signal_pidfd_send_signal": "signal.pidfd_send_signal",
}


def python_function(function: str) -> str | None:
    """Return ``"os.kill"`` for ``"os_kill_impl"``; None for everything else."""
    return _FUNCTIONS.get(plain(function).removesuffix("_impl"))


def python_call(thread: Thread, index: int) -> str | None:
    """Return which line of Python called the function of a frame, if Python knows it."""
    name = python_function(thread.frames[index].function)
    if name is None:
        return None
    return f"Python code called {name}(){python_place(thread)}"


def python_place(thread: Thread) -> str:
    """Return `` (step at train.py:8)`` of the line of Python that led here, or nothing."""
    at = python_index(thread)
    line = thread.frames[at] if at is not None else None
    if line is None or not line.file or not line.line:
        return ""
    function = line.function.rpartition(".")[2]
    return f" ({clip(function, 24)} at {clip(file_name(line.file), 40)}:{line.line})"
