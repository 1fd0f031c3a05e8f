"""Rows of the native reader of strace logs to facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postmortem.facts.syscalls import (
    Awaited,
    Blocked,
    CallCount,
    Connection,
    Ending,
    ErrorCount,
    FileCount,
    FolderCount,
    FutexUse,
    Holder,
    Interruption,
    LastFailure,
    LogPlace,
    Match,
    NameMessage,
    Recording,
    SlowCall,
    SystemCalls,
    Target,
    Task,
    TaskCall,
    Timeout,
)
from postmortem.readers.stracefind import LogGroup, starts_with_exec

if TYPE_CHECKING:
    from postmortem._native import (
        RawAwaited,
        RawBlocked,
        RawCallPlace,
        RawCounts,
        RawFutexUse,
        RawMatch,
        RawStrace,
        RawTarget,
        RawTask,
    )


def calls_of(group: LogGroup, raw: RawStrace, head: bytes) -> SystemCalls:
    """Return the facts of one recording; `head` is how its first file begins."""
    names = tuple(name for name, _ in group.files)
    tasks = tuple(_task(row, names) for row in raw["processes"])
    timed = any(row["nanoseconds"] for row in raw["syscalls"])
    counts = raw["counts"]
    return SystemCalls(
        name=group.name,
        matches=tuple(_match(row, names) for row in raw["matches"]),
        match_count=raw["match_count"],
        tasks=tasks,
        errors=tuple(
            ErrorCount(
                row["errno"],
                row["syscall"],
                row["path"],
                row["kind"],
                row["count"],
                row["injected"],
                names[row["file"]],
                row["line"],
                row["pid"],
            )
            for row in raw["failures"]
        ),
        calls=tuple(
            CallCount(
                row["name"],
                row["calls"],
                row["errors"],
                row["nanoseconds"] / 1e9 if timed else None,
            )
            for row in raw["syscalls"]
        ),
        files=tuple(FileCount(*row) for row in raw["files"]),
        libraries=frozenset(raw["libraries"]),
        recording=Recording(
            lines=counts["lines"],
            unparsed=counts["unparsed"],
            calls=counts["calls"],
            first_unparsed=raw["first_unparsed"],
            options=_options(counts, many=len(group.files) > 1, summed=raw["summed"]),
            opens=raw["opens"],
            io_uring=raw["io_uring"],
            open_for_writing=tuple(raw["open_for_writing"]),
            times=counts["times"],
            durations=counts["durations"],
            cut=counts["cut"],
            detached=counts["detached"],
            from_start=starts_with_exec(head),
            files=len(group.files),
            summed=raw["summed"],
        ),
        slow=tuple(
            SlowCall(_match(row, names), row["nanoseconds"] / 1e9, row["pace"])
            for row in sorted(raw["slow"], key=lambda row: -row["nanoseconds"])
        ),
        connections=tuple(
            Connection(
                row["pid"],
                row["fd"],
                row["peer"],
                row["result"],
                names[row["file"]],
                row["line"],
                row["nanoseconds"] / 1e9,
                row["asked"],
                row["silent_waits"],
                row["silent_nanoseconds"] / 1e9,
                row["silent_line"],
                row["silent_text"],
            )
            for row in raw["connections"]
        ),
        name_messages=tuple(
            NameMessage(
                row["pid"], names[row["file"]], row["line"], row["answer"], row["data"], row["peer"]
            )
            for row in raw["name_messages"]
        ),
        timeouts=tuple(
            Timeout(
                row["syscall"],
                row["target"],
                row["text"],
                row["count"],
                row["nanoseconds"] / 1e9,
                names[row["file"]],
                row["line"],
                row["pid"],
            )
            for row in raw["timeouts"]
        ),
        folders=tuple(
            FolderCount(path, calls, errors, nanoseconds / 1e9, first, last)
            for path, calls, errors, nanoseconds, first, last in raw["folders"]
        ),
        first_time=raw["first_time"],
        last_time=raw["last_time"],
    )


def _options(counts: RawCounts, *, many: bool, summed: bool) -> tuple[str, ...]:
    """Return the options of strace that the log shows."""
    options = []
    if many:
        options.append("-ff")
    elif counts["pids"]:
        options.append("-f")
    if counts["durations"]:
        options.append("-T")
    if counts["times"] and not summed:
        options.append("-ttt" if counts["epochs"] else "-tt")
    if counts["relative"]:
        options.append("-r")
    if counts["annotations"]:
        options.append("-y")
    if counts["traces"]:
        options.append("-k")
    if counts["colors"]:
        options.append("--color")
    return tuple(options)


def _match(row: RawMatch, names: tuple[str, ...]) -> Match:
    return Match(
        file=names[row["file"]],
        line=row["line"],
        began_line=row["entry_line"],
        pid=row["pid"],
        time=row["time"],
        syscall=row["syscall"],
        text=row["text"],
        errno=row["errno"],
        fd=row["fd"],
        target=_target(row["target"], names),
        task=Task(
            row["pid"],
            row["ppid"],
            row["thread_of"],
            None if row["argv"] is None else tuple(row["argv"]),
            None,
            None,
            environment=tuple(row["rank"]),
        ),
        injected=row["injected"],
        inferred=row["inferred"],
        holders=tuple((name, count) for name, count in row["holders"]),
        seconds=row["nanoseconds"] / 1e9 if row["nanoseconds"] else None,
    )


def _target(row: RawTarget, names: tuple[str, ...]) -> Target:
    return Target(
        path=row["path"],
        kind=row["kind"],
        source=row["source"],
        deleted=row["deleted"],
        nameless=row["nameless"],
        guessed=row["guessed"],
        opened=_place(row["opened"], names),
        given=_place(row["given"], names),
        flags=row["flags"],
        label=row["label"],
        written_bytes=row["written_bytes"],
        read_bytes=row["read_bytes"],
    )


def _place(row: RawCallPlace | None, names: tuple[str, ...]) -> LogPlace | None:
    if row is None:
        return None
    return LogPlace(names[row["file"]], row["line"], row["pid"], row["syscall"])


def _task(row: RawTask, names: tuple[str, ...]) -> Task:
    end = row["exit"]
    return Task(
        pid=row["pid"],
        ppid=row["ppid"],
        thread_of=row["thread_of"],
        argv=None if row["argv"] is None else tuple(row["argv"]),
        ending=None
        if end is None
        else Ending(
            names[end["file"]],
            end["line"],
            end["code"],
            end["signal"],
            end["core"],
            end["sender"],
            end["time"],
            end["told"],
        ),
        blocked=_blocked(row["blocked_in"], names),
        began=row["began"],
        seen=row["seen"],
        environment=tuple(row["rank"]),
        calls=tuple(TaskCall(name, calls, took / 1e9) for name, calls, took in row["calls"]),
        interruptions=tuple(
            Interruption(
                one["signal"],
                one["sender"],
                names[one["file"]],
                one["line"],
                one["pid"],
                one["syscall"],
                one["target"],
                one["nanoseconds"] / 1e9,
            )
            for one in row["interruptions"]
        ),
        last_failures=tuple(
            LastFailure(
                one["errno"],
                one["syscall"],
                one["path"],
                names[one["file"]],
                one["line"],
                one["pid"],
                one["direct"],
            )
            for one in row["last_failures"]
        ),
        last_words=tuple(row["last_words"]),
        last_word_lines=tuple(row["last_word_lines"]),
        writing=tuple(row["writing"]),
        stopped=row["stopped"],
    )


def _blocked(row: RawBlocked | None, names: tuple[str, ...]) -> Blocked | None:
    if row is None:
        return None
    target = None if row["target"] is None else _target(row["target"], names)
    return Blocked(
        names[row["file"]],
        row["line"],
        row["syscall"],
        row["text"],
        target,
        row["since"],
        tuple(_awaited(one, names) for one in row["awaited"]),
        _futex(row["futex"]),
    )


def _awaited(row: RawAwaited, names: tuple[str, ...]) -> Awaited:
    return Awaited(
        row["fd"],
        _target(row["target"], names),
        row["paired"],
        tuple(Holder(pid, fd) for pid, fd in row["holders"]),
        row["holder_count"],
    )


def _futex(row: RawFutexUse | None) -> FutexUse | None:
    if row is None:
        return None
    return FutexUse(
        row["woken_by"] or None, row["woken_line"], row["passed_by"] or None, row["passed_line"]
    )
