"""What words on standard error name: errors of system calls, programs, and which line says most."""

import errno
import os
from collections.abc import Iterator

from postmortem import thresholds
from postmortem.knowledge.messages import Wording
from postmortem.patterns import Pattern

_NUMBER = Wording("errno-number")
_CLASS = Wording("errno-class")
_NOT_FOUND = Wording("shell-not-found")
_CANNOT_RUN = Wording("shell-cannot-run")
_BESIDE = Wording("beside-an-error")
_TIMED_OUT = Wording("ran-out-of-time")
# How lines of backtraces and lists begin; a line without a letter.
_AROUND = Pattern(r"^(?: {2,}|\t|- |at |: | *\d+: |[^A-Za-z]*$)")
_CUT = "…\n"
_LEAST_LINE = 16


def errnos_named(words: str, *, exceptions: bool = False) -> Iterator[str]:
    """Yield names of errors: of those that stand there as numbers the last one first.

    `exceptions`: those too for which Python has a class, wherever that was named.
    """
    for found in reversed(list(_NUMBER.finditer(words))):
        name = errno.errorcode.get(int(next(filter(None, found.groups()))))
        if name is not None:
            yield name
    yield from errnos_in_text(words)
    if exceptions:
        yield from (str(one.lastgroup) for one in _CLASS.finditer(words))


def errnos_in_text(words: str) -> list[str]:
    """Return the errors whose message (strerror(3)) is in words, or is where they were cut."""
    found = []
    cut = words.removesuffix(_CUT) if words.endswith(_CUT) else ""
    for number, name in errno.errorcode.items():
        message = os.strerror(number)
        if len(message) >= thresholds.CUT_MESSAGE_LETTERS and (
            message in words or _ends_within(cut, message)
        ):
            found.append(name)
    return found


def _ends_within(words: str, message: str) -> bool:
    """Return whether words end with the beginning of a message."""
    most = min(len(words), len(message) - 1)
    return any(
        words.endswith(message[:n]) for n in range(most, thresholds.CUT_MESSAGE_LETTERS - 1, -1)
    )


def last_line(words: str) -> str | None:
    """Return the last line that tells something: no line of a backtrace, and no remark on it."""
    written = [line for line in words.splitlines() if line.strip(" \t…")]
    lines = [line.strip() for line in written]
    if len(lines) > 1 and lines[-1].startswith(": "):  # error(3) writes its message by itself
        return lines[-2] + lines[-1]
    # strace -s cut the line before, not the process: this is its end
    if len(lines) > 1 and lines[-2].endswith("…") and len(lines[-1]) < _LEAST_LINE:
        return f"{lines[-2]} {lines[-1]}"
    telling = [
        line.strip() for line in written if not (_AROUND.search(line) or _BESIDE.search(line))
    ]
    return (telling or lines)[-1] if lines else None


def is_beside(words: str) -> bool:
    """Return whether words stand beside a message and do not say what failed: a note, a hint."""
    return _BESIDE.search(words) is not None


def ran_out_of_time(words: str) -> bool:
    """Return whether they tell of a time limit that was reached."""
    return _TIMED_OUT.search(words) is not None


def program_not_found(words: str) -> str | None:
    """Return the program that a shell said last it did not find."""
    for line in reversed(words.splitlines()):
        found = _NOT_FOUND.search(line)
        if found is not None:
            return found["name"]
    return None


def programs_not_run(words: str) -> Iterator[str]:
    """Yield the files of which a shell said that it cannot run them."""
    return (found["file"] for found in _CANNOT_RUN.finditer(words))
