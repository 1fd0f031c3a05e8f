"""Errors that processes named themselves, on standard error, before they ended."""

import errno
import os
from collections.abc import Iterator

from postmortem import thresholds
from postmortem.facts.syscalls import LastFailure, Task
from postmortem.knowledge.messages import Wording
from postmortem.patterns import Pattern

_NUMBER = Wording("errno-number")
_CLASS = Wording("errno-class")
_NOT_FOUND = Wording("shell-not-found")
# The C library looks for translations of its messages when it has one to write.
_CATALOGUE = Pattern(r"/LC_MESSAGES/|/locale/.*\.mo$")
# What sem_open() and mkstemp() look for is to be new.
_NEW = Pattern(r"^/dev/shm/sem\.\w{6}$")
# How lines of backtraces and lists begin; a line without a letter.
_AROUND = Pattern(r"^(?: {2,}|\t|- |at |: | *\d+: |[^A-Za-z]*$)")
_BESIDE = Wording("beside-an-error")
_CUT = "…\n"
_LEAST_NAME = 4
_LEAST_LINE = 16


def spoken_failure(task: Task) -> LastFailure | None:
    """Return the failed call whose error, or file, a process named last; None if it named none."""
    for name, line in spoken_errors(task):
        found = [
            failure
            for failure in reversed(task.last_failures)
            if failure.errno == name or {failure.errno, name} == {"EOPNOTSUPP", "ENOTSUP"}
            if failure.line < line and not _is_asking(failure)
        ]
        if found:
            named = [one for one in found if is_named(task, one, line)]
            said = "".join(task.last_words)
            return (
                next((one for one in named if _holds_name(said, one.path or "")), None)
                or (named or found)[0]
            )
    return _named_file(task)


def _is_asking(failure: LastFailure) -> bool:
    path = failure.path or ""
    return bool(_CATALOGUE.search(path) or _NEW.search(path))


def is_named(task: Task, failure: LastFailure, line: int) -> bool:
    """Return whether the words have the path of a failure, or soon after it the name alone."""
    path = failure.path or ""
    name = path.rpartition("/")[2]
    if len(name) < _LEAST_NAME:
        return False
    said = "".join(words for words in task.last_words if not words.startswith("  File "))
    return _holds_name(said, path) or (
        line - failure.line <= thresholds.NAMED_FILE_LINES and _holds_name(said, name)
    )


def _named_file(task: Task) -> LastFailure | None:
    """Return the last failure on a file that was named right after it; strace -s cut the error."""
    own = (task.argv or ("",))[0].rpartition("/")[2]  # programs begin their words with it
    for words, line in reversed(tuple(zip(task.last_words, task.last_word_lines, strict=False))):
        if words.startswith("  File "):  # of a traceback: it names the source
            continue
        for failure in reversed(task.last_failures):
            path = failure.path or ""
            name = path.rpartition("/")[2]
            if name.isalpha() and not _holds_name(words, path):
                continue  # "main" is any word
            near = 0 < line - failure.line <= thresholds.NAMED_FILE_LINES
            if near and len(name) >= _LEAST_NAME and _holds_name(words, name) and name != own:
                return failure
    return None


def _holds_name(words: str, name: str) -> bool:
    at = words.find(name)
    while at >= 0:
        before, after = words[at - 1 : at], words[at + len(name) : at + len(name) + 1]
        if not _is_of_name(before) and not _is_of_name(after):
            return True
        at = words.find(name, at + 1)
    return False


def _is_of_name(letter: str) -> bool:
    return letter.isalnum() or letter in ("_", "-")


def spoken_errors(task: Task, *, exceptions: bool = False) -> Iterator[tuple[str, int]]:
    """Yield names of errors that a process wrote, the last first, with the lines of the log.

    `exceptions`: those too for which Python has a class, wherever that was named.
    """
    for words, line in reversed(tuple(zip(task.last_words, task.last_word_lines, strict=False))):
        for found in reversed(list(_NUMBER.finditer(words))):
            name = errno.errorcode.get(int(next(filter(None, found.groups()))))
            if name is not None:
                yield name, line
        yield from ((name, line) for name in worded(words))
        if exceptions:
            yield from ((str(one.lastgroup), line) for one in _CLASS.finditer(words))


def worded(words: str) -> list[str]:
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


def last_said(task: Task) -> str | None:
    """Return the last line that a process wrote to its standard error."""
    written = [line for line in "".join(task.last_words).splitlines() if line.strip(" \t…")]
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


def not_found(task: Task) -> str | None:
    """Return the program that a shell said last it did not find."""
    for line in reversed("".join(task.last_words).splitlines()):
        found = _NOT_FOUND.search(line)
        if found is not None:
            return found["name"]
    return None
