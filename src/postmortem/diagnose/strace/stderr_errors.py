"""Errors that processes named themselves, on standard error, before they ended."""

from collections.abc import Iterator

from postmortem import thresholds
from postmortem.facts.syscalls import LastFailure, Task
from postmortem.knowledge.stderr_text import errnos_named, is_beside, last_line
from postmortem.patterns import Pattern

# The C library looks for translations of its messages when it has one to write.
_CATALOGUE = Pattern(r"/LC_MESSAGES/|/locale/.*\.mo$")
# What sem_open() and mkstemp() look for is to be new.
_NEW = Pattern(r"^/dev/shm/sem\.\w{6}$")
_LEAST_NAME = 4
_LEAST_PATH = 8


def spoken_failure(task: Task) -> LastFailure | None:
    """Return the failed call whose error, or file, a process named last; None if it named none."""
    errors = tuple(spoken_errors(task))
    for name, line in errors:
        found = [
            failure
            for failure in reversed(task.last_failures)
            if failure.errno == name or {failure.errno, name} == {"EOPNOTSUPP", "ENOTSUP"}
            if failure.line < line and not _is_asking(failure)
        ]
        if found:
            named = [one for one in found if is_named(task, one, line)]
            said = "".join(task.last_words)
            named = [one for one in named if _holds_name(said, one.path or "")] or named
            return _asked_again(task, (named or found)[0])
    return None if errors else _named_file(task)


def _asked_again(task: Task, failure: LastFailure) -> LastFailure:
    """Return the first of calls in a row that failed so on one path: the others asked why."""
    rows = list(task.last_failures)
    for before in reversed(rows[: rows.index(failure)]):
        same = (before.errno, before.path) == (failure.errno, failure.path)
        if not same or before.syscall == failure.syscall:
            break
        failure = before
    return failure


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
        # Of a traceback: it names the source. A note names what is meant, and no failure.
        if words.startswith("  File ") or is_beside(words):
            continue
        for failure in reversed(task.last_failures):
            path = failure.path or ""
            name = path.rpartition("/")[2]
            if line - failure.line == 1 and _is_cut_within(words, path):
                return failure
            if name.isalpha() and not _holds_name(words, path):
                continue  # "main" is any word
            near = 0 < line - failure.line <= thresholds.NAMED_FILE_LINES
            if near and len(name) >= _LEAST_NAME and _holds_name(words, name) and name != own:
                return failure
    return None


def _is_cut_within(words: str, path: str) -> bool:
    """Return whether strace -s cut words within a path."""
    text, cut, _ = words.rpartition("…")
    word = text.rpartition(" ")[2].lstrip("'\"`(")
    return bool(cut) and len(word) >= _LEAST_PATH and path.startswith(word)


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
    """Yield names of errors that a process wrote, the last first, with the lines of the log."""
    for words, line in reversed(tuple(zip(task.last_words, task.last_word_lines, strict=False))):
        yield from ((name, line) for name in errnos_named(words, exceptions=exceptions))


def last_stderr_line(task: Task) -> str | None:
    """Return the last line that tells something of what a process wrote to its standard error."""
    return last_line("".join(task.last_words))
