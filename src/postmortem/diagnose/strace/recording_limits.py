"""What a log does not show because of how it was recorded, and how to record it."""

from collections.abc import Iterator

from postmortem import thresholds
from postmortem.facts.source import Problem
from postmortem.facts.syscalls import SystemCalls
from postmortem.text import counted

RECORD = "strace -f -ttt -T -o strace.txt COMMAND"

_OPENS = frozenset({"open", "openat", "openat2", "creat"})
_USES = frozenset({
    "read", "write", "pread64", "pwrite64", "readv", "writev", "lseek", "fstat", "fsync", "close",
    "ftruncate", "fallocate", "getdents64", "fdatasync",
})  # fmt: skip
# Every dynamically linked program makes these before its main() starts.
_START = {
    "opens": _OPENS,
    "close": frozenset({"close"}),
    "mmap": frozenset({"mmap", "mmap2"}),
    "brk or mprotect": frozenset({"brk", "mprotect"}),
    "reads": frozenset({"read", "pread64"}),
}


def hidden(log: SystemCalls) -> Iterator[Problem]:
    """Yield what is missing so that answers may be missing too; totals must have been counted."""
    if sum(row.calls for row in log.calls) >= thresholds.SNIPPET_CALLS:
        yield from _filtered(log)
        yield from _by_status(log)
        yield from _children(log)
    yield from _submitted(log)
    yield from _cut(log)


def remarks(log: SystemCalls) -> Iterator[Problem]:
    """Yield what else the options of the recording hide."""
    yield from _begins(log)
    yield from _times(log)
    yield from _ends(log)
    yield from _injected(log)


def _filtered(log: SystemCalls) -> Iterator[Problem]:
    names = frozenset(row.name for row in log.calls)
    recording = log.recording
    started = bool(names & {"execve", "execveat"})
    uses = names & _USES
    if uses and not names & _OPENS and (started or recording.calls >= 20):
        yield Problem(
            log.name,
            "no open is in the log (-Z, -e trace=): descriptors cannot be resolved to files",
            f"record the opens too: {RECORD}",
        )
    elif started and recording.from_start and not only(log, failed=True):
        # A static program has no loader that maps libraries; what it calls first is in no class of
        # -e trace=, so that a log that has it was not recorded with one.
        static = frozenset({"mmap", "brk or mprotect"} if "set_tid_address" in names else ())
        # A loader that finds no library has nothing to read and to map.
        empty = frozenset({"reads", "close", "mmap"} if not _any_open(log) else ())
        missing = [
            what
            for what, some in _START.items()
            if not names & some and what != "opens" and what not in static | empty
        ]
        if missing and names - {"execve", "exit_group", "exit"}:
            what = f"recorded with -e trace=: no {', no '.join(missing)} in the log"
            told = "; descriptors may be taken for files that were closed" * ("close" in missing)
            yield Problem(log.name, what + told, f"record all calls: {RECORD}")


def _any_open(log: SystemCalls) -> bool:
    """Whether a file was opened, or the log has no opens to tell."""
    opens = [row for row in log.calls if row.name in _OPENS]
    return not opens or any(row.calls > row.errors for row in opens)


def _begins(log: SystemCalls) -> Iterator[Problem]:
    names = frozenset(row.name for row in log.calls)
    if log.recording.from_start or names & {"execve", "execveat"}:
        return
    if only(log, failed=True):
        return
    what = "the log does not begin with execve (strace -p, -e trace=, or a part of a log)"
    yield Problem(
        log.name,
        f"{what}: files that were open before are not known, unless -y names them",
        f"record from the start, or attach with -y: {RECORD}",
    )


def only(log: SystemCalls, *, failed: bool) -> bool:
    """Return whether calls that failed, or that worked, are all that a log has (-Z, -z)."""
    calls = sum(row.calls for row in log.calls)
    errors = sum(row.errors for row in log.calls)
    ran = any(row.name == "execve" and row.calls > row.errors for row in log.calls)
    if calls < 20 or (failed and ran):
        return False
    return errors >= 0.9 * calls if failed else errors == 0 and calls >= thresholds.FILTERED_CALLS


def _by_status(log: SystemCalls) -> Iterator[Problem]:
    if only(log, failed=True):
        what = "nearly every call in the log failed (-Z): those that worked are missing"
        yield Problem(
            log.name, f"{what}, so opens, forks and waits are not known", f"record {RECORD}"
        )
    elif only(log, failed=False) and any(row.name == "execve" for row in log.calls):
        what = "not one call in the log failed (-z): failures are not in it"
        yield Problem(log.name, what, f"record without -z: {RECORD}")


def _children(log: SystemCalls) -> Iterator[Problem]:
    unseen = [task for task in log.tasks if not task.recorded]
    if not unseen:
        return
    pids = ", ".join(str(task.pid) for task in unseen[:4]) + ("" if len(unseen) <= 4 else ", …")
    count = counted(len(unseen), "child has", "children have")
    remedy = f"follow children: {RECORD}"
    if log.recording.files > 1 or any("-ff" in option for option in log.recording.options):
        remedy = "name all files of strace -ff: their folder, or their prefix"
    yield Problem(log.name, f"{count} no line in the log ({pids}): recorded without -f?", remedy)


def _submitted(log: SystemCalls) -> Iterator[Problem]:
    if not log.recording.io_uring:
        return
    # Where all went well there is nothing to miss.
    if any(task.ending and (task.ending.signal or task.ending.code) for task in log.tasks):
        what = (
            "io_uring was used: what was read and written through it, and failed, is not in the log"
        )
        remedy = "perf trace -e io_uring:io_uring_complete shows the results (-28 is ENOSPC)"
        yield Problem(log.name, what, remedy)


def _times(log: SystemCalls) -> Iterator[Problem]:
    recording = log.recording
    if recording.summed:
        what = "recorded with -r alone: times are those since the first line, added up"
        yield Problem(log.name, what)
    elif "-r" in recording.options and not recording.times and recording.files > 1:
        what = "recorded with -ff -r: its stamps count from the last line of any file, so no clock"
        yield Problem(log.name, what, f"record {RECORD}")
    if recording.durations or recording.calls < thresholds.FILTERED_CALLS:
        return
    if not recording.times:
        what = "recorded without -T and -t: how long calls took is not known"
        yield Problem(log.name, what, f"record {RECORD}")
    else:
        what = (
            "recorded without -T: only calls that another task's line interrupted have a duration, "
            "the difference of their stamps"
        )
        yield Problem(log.name, what, f"record {RECORD}")


def _cut(log: SystemCalls) -> Iterator[Problem]:
    recording = log.recording
    if recording.cut:
        what = "the log ends in the middle of a line: strace was killed, still runs, or it was cut"
        yield Problem(log.name, what)
    if recording.detached:
        yield Problem(
            log.name, "strace was detached while tasks still ran: their ends are not known"
        )


def _injected(log: SystemCalls) -> Iterator[Problem]:
    count = sum(row.injected for row in log.errors)
    if count:
        what = f"strace itself made {counted(count, 'call')} fail (-e inject=)"
        yield Problem(
            log.name, f"{what}: no machine is at fault for those, nor for what they led to"
        )


def _ends(log: SystemCalls) -> Iterator[Problem]:
    recording = log.recording
    quiet = [task for task in log.tasks if task.ending is not None and not task.ending.told]
    if quiet and recording.from_start:
        what = (
            "the log has no line for the ends of tasks (-qq): exit codes are those they asked for"
        )
        yield Problem(
            log.name, f"{what}, and deaths by a signal are not seen", "record without -qq"
        )
    cut = sum(1 for task in log.tasks if any(word.endswith("…") for word in task.argv or ()))
    if cut:
        count = counted(cut, "process", "processes")
        yield Problem(log.name, f"arguments of {count} are cut off (-s)", "record with -s 256")
