"""A call failed, and the program said so before it ended.

What it means
    The process wrote an error's number or message, or the name of a file, to its standard error
    and ended with a status other than 0; the last call before that which failed so, or on that
    file, is what it spoke of. Where it wrote
    nothing (or strace -s cut it away), a failure by which programs ask for nothing (a rename
    between two file systems, a lock that another process has) shortly before the end is named
    as possible.
How to be sure
    Read what it wrote: --find 'syscall=write fd=2 pid=PID'; strace -s 4096 records all of it.
What to do
    What the error means for that file: look at it with ls -ld, namei -l, findmnt -T; for locks
    lslocks shows who has them.
"""

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.diagnose.strace.benign_errors import ASKED_ERRORS
from postmortem.diagnose.strace.calls import shortened, where, who
from postmortem.diagnose.strace.lastfailures import is_asking
from postmortem.diagnose.strace.signals import ended
from postmortem.diagnose.strace.stderr_errors import (
    is_named,
    last_stderr_line,
    spoken_errors,
    spoken_failure,
)
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import LastFailure, Task
from postmortem.knowledge.stderr_text import program_not_found
from postmortem.patterns import Pattern
from postmortem.text import shell_word

_LOCKS = frozenset({"flock", "fcntl", "fcntl64"})
_OTHERS = Pattern(r"/lib[^/]*\.so[^/]*$")  # library_not_found explains them
_ELSEWHERE = frozenset({"execve", "execveat", "connect"})  # have rules of their own
_OF_PROGRAMS = frozenset({"ENOEXEC", "E2BIG"})
_STARTS = frozenset({"execve", "execveat", "chdir"})
_CROSSING = (
    "source and target are on different file systems, and {call} cannot cross them: a rename or a "
    "hard link works within one, reflinks too"
)
_MEANINGS = {
    "EXDEV": _CROSSING,
    "EOPNOTSUPP": "that file system (or socket) cannot do this",
    "ENOTDIR": "a component on the way is a file, not a folder",
    "EISDIR": "it is a folder, and was to be opened or written as a file",
    "ENOTEMPTY": "the folder is not empty",
    "EDEADLK": "the kernel saw that this lock would close a circle of processes that wait for each "
    "other's locks",
    "ENOENT": "it, or a folder on the way to it, is not there (under this name, in this container, "
    "for this working directory)",
    "EEXIST": "it is there already",
    "ENOEXEC": "it is not a program that the kernel can run: of another architecture, cut "
    "off, or a "
    "script without a first line (#!) that names its interpreter",
    "E2BIG": "its arguments and environment take more than the kernel allows (128 KiB for one of "
    "them, a quarter of ulimit -s for all)",
}
_TELLING = frozenset({"EXDEV", "EISDIR", "ENOTDIR", "ENOTEMPTY", "EDEADLK", "EOPNOTSUPP"})
"""Errors by which programs ask for nothing: one right before the end may be why."""
_HELD = "another process has a lock on it"
_OPENS = frozenset({"open", "openat", "openat2"})
_UNALIGNED = (
    "it was opened with O_DIRECT, which takes only addresses, offsets and lengths that are "
    "multiples of the block size of the disk (512 or 4096)"
)
_NO_DIRECT = "its file system does not take O_DIRECT (tmpfs of old kernels, some FUSE file systems)"


@rule(
    "https://man7.org/linux/man-pages/man3/errno.3.html",
    "https://man7.org/linux/man-pages/man2/rename.2.html",
    "https://man7.org/linux/man-pages/man2/fcntl_locking.2.html",
    "https://man7.org/linux/man-pages/man2/open.2.html",
)
def named_its_error(logs: Logs) -> Findings:
    for task in _failed(logs):
        spoken = spoken_failure(task)
        failure = spoken or _telling(task)
        if failure is not None:
            failure = _of_child(logs, task, failure) or failure
        if failure is None or not is_named(task, failure, failure.line):
            passed_on = _of_worker(logs, task, failure)
            failure, spoken = passed_on or failure, passed_on or spoken
        if failure is None or not _unexplained(failure) or _is_program(task, failure):
            continue
        yield _finding(logs, task, failure, spoken=spoken is not None)
        return


def _failed(logs: Logs) -> list[Task]:
    """Return processes that exited with an error, those first which nobody outlived with 0."""
    tasks = [task for task, end in ended(logs) if end.code]
    return sorted(tasks, key=lambda task: _outlived(logs, task))


def _outlived(logs: Logs, task: Task) -> bool:
    """Return whether the process that started one went on and exited with 0."""
    parent = logs.task(task.ppid) if task.ppid else None
    return parent is not None and parent.ending is not None and parent.ending.code == 0


def _telling(task: Task) -> LastFailure | None:
    end = task.ending
    assert end is not None
    for failure in reversed(task.last_failures):
        if failure.file == end.file and end.line - failure.line > thresholds.UNNAMED_FAILURE_LINES:
            return None
        held = failure.syscall in _LOCKS and failure.errno in ("EAGAIN", "EACCES")
        asked = failure.syscall == "ioctl"  # what a device can do: EOPNOTSUPP is an answer
        if held or (failure.errno in _TELLING and not asked) or _is_direct(failure):
            return failure
    return None


def _of_child(logs: Logs, task: Task, failure: LastFailure) -> LastFailure | None:
    """Return a later failure of a child that was to run a program, for the same reason.

    Who starts a program speaks of the error that its child got from execve, or from chdir before.
    """
    later = (
        one
        for child in logs.children(task.pid)
        for one in child.last_failures
        if one.syscall in _STARTS and one.errno == failure.errno and one.file == failure.file
    )
    return max((one for one in later if one.line > failure.line), key=_line, default=None)


def _of_worker(logs: Logs, task: Task, own: LastFailure | None) -> LastFailure | None:
    """Return a later failure of a child with an error that a process named, which its own is not.

    Pools hand the exceptions of their workers on to whoever waits for them; of what a child looked
    for in vain, much need not be there.
    """
    said = dict(spoken_errors(task, exceptions=True))
    end = task.ending
    found = (
        one
        for child in logs.children(task.pid)
        for one in child.last_failures
        if (own is None or one.line > own.line) and one.line < said.get(one.errno, 0)
        if end is not None and one.file == end.file and not is_asking(one)
    )
    return max(found, key=_line, default=None)


def _is_program(task: Task, failure: LastFailure) -> bool:
    """Return whether a shell looked for a program there: program_not_found tells of it."""
    name = program_not_found("".join(task.last_words))
    return name is not None and (failure.path or "").rpartition("/")[2] == name


def _line(failure: LastFailure) -> int:
    return failure.line


def _is_far(task: Task, failure: LastFailure) -> bool:
    """Return whether much happened between a look-up and the words on an error that is common.

    Python reads its sources while it prints a traceback: what counts is where that begins.
    """
    said = zip(task.last_words, task.last_word_lines, strict=False)
    lines = [line for words, line in said if line > failure.line and words.strip()]
    named = (failure.path or "").rpartition("/")[2]
    if failure.errno != "ENOENT" or not lines or (named and named in "".join(task.last_words)):
        return False
    return lines[0] - failure.line > thresholds.FAILED_LOOKUP_LINES


def _is_direct(failure: LastFailure) -> bool:
    return failure.errno == "EINVAL" and failure.direct


def _unexplained(failure: LastFailure) -> bool:
    if failure.syscall in _ELSEWHERE and failure.errno not in _OF_PROGRAMS:
        return False
    if _OTHERS.search(failure.path or ""):
        return False
    return failure.errno in ("EDEADLK", "ENOEXEC") or failure.errno not in ASKED_ERRORS


def _finding(logs: Logs, task: Task, failure: LastFailure, *, spoken: bool) -> Finding:
    path = failure.path
    on = f" on {path}" if path else ""
    held = failure.syscall in _LOCKS and failure.errno != "EDEADLK"
    meaning = _HELD if held else _MEANINGS.get(failure.errno, "")
    if _is_direct(failure):
        meaning = _NO_DIRECT if failure.syscall in _OPENS else _UNALIGNED
    if failure.syscall == "getcwd" and failure.errno == "ENOENT":
        meaning = "its working directory was removed"
    meaning = meaning.format(call=failure.syscall)
    said = last_stderr_line(task)
    outlived = _outlived(logs, task)
    words = f"; it said: {clip(said, 120)}" if spoken and said else ""
    after = "; the process that started it went on and exited with 0" if outlived else ""
    short = f" on {shortened(path, 50)}" if path else ""
    title = f"{failure.syscall} failed with {failure.errno}{short}"
    if held:
        title = f"another process has the lock{short}"
    end = task.ending
    assert end is not None
    sure = (spoken and not _is_far(task, failure)) or (
        failure.file == end.file and end.line - failure.line <= thresholds.SURE_FAILURE_LINES
    )
    confidence = Confidence.LIKELY if sure else Confidence.POSSIBLE
    return Finding(
        title=title,
        cause=f"{who(failure.pid)} got {failure.errno} from {failure.syscall}{on}"
        f"{': ' * bool(meaning)}{meaning}{words}{after}",
        confidence=Confidence.POSSIBLE if outlived else confidence,
        role=Role.CONTRIBUTING if outlived else Role.ROOT,
        next_steps=_steps(task, failure, held=held),
        evidence=(
            Evidence(_at(failure), f"{who(failure.pid)} {failure.syscall}{on}: {failure.errno}"),
            Evidence(where(end), f"exited with {end.code}"),
        ),
        about=Subject(pid=failure.pid or None, path=failure.path, errno=failure.errno),
    )


def _at(failure: LastFailure) -> str:
    return where(failure)


def _steps(task: Task, failure: LastFailure, *, held: bool) -> tuple[str, ...]:
    path = shell_word(failure.path) if failure.path else "FILE"
    spoke = f"what it said: postmortem strace LOG --find 'syscall=write fd=2 pid={task.pid}' -v"
    if held or failure.errno == "EDEADLK":
        return (f"lslocks ; fuser -v {path} : who has it open or locked?", spoke)
    if failure.errno in ("EXDEV", "EOPNOTSUPP"):
        return (
            f"findmnt -T {path} : which file system is it, and which is the other one?",
            "copy instead (mv, shutil.move), or make the temporary file beside the target",
        )
    if _is_direct(failure):
        return (
            f"findmnt -T {path} ; lsblk -t : which file system, and which block size (PHY-SEC)?",
            "align buffers, offsets and lengths to it, or open without O_DIRECT",
        )
    if failure.path is None:
        return (spoke, f"man 2 {failure.syscall} : when does it give {failure.errno}?")
    return (f"namei -l {path} : which component is missing, or of the wrong kind?", spoke)
