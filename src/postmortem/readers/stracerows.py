"""Rows of the native reader of strace logs to facts: their fields have the same names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from postmortem.facts import syscall_totals
from postmortem.facts.syscalls import (
    Awaited,
    Blocked,
    Ending,
    FutexUse,
    Holder,
    Interruption,
    LastFailure,
    LogPlace,
    Match,
    SlowCall,
    SystemCalls,
    Target,
    Task,
    TaskCall,
)
from postmortem.readers.launcher import Placement, find_placement
from postmortem.readers.stracefind import LogGroup, starts_with_exec
from postmortem.records import of_row

if TYPE_CHECKING:
    from postmortem._native import RawCounts, RawFact, RawStrace

_NOWHERE = Placement()


def calls_of(group: LogGroup, raw: RawStrace, head: bytes) -> SystemCalls:
    """Return the facts of one recording; `head` is how its first file begins."""
    timed = any(row["seconds"] for row in raw["syscalls"])
    counts = raw["counts"]
    return SystemCalls(
        name=group.name,
        matches=tuple(_match(row) for row in raw["matches"]),
        match_count=raw["match_count"],
        tasks=tuple(_tasks(raw["processes"])),
        errors=tuple(syscall_totals.ErrorCount(**row) for row in raw["failures"]),
        calls=tuple(
            syscall_totals.CallCount(
                row["name"], row["calls"], row["errors"], row["seconds"] if timed else None
            )
            for row in raw["syscalls"]
        ),
        files=tuple(syscall_totals.FileCount(*row) for row in raw["files"]),
        libraries=frozenset(raw["libraries"]),
        recording=of_row(
            syscall_totals.Recording,
            {**raw, **counts},
            options=_options(counts, many=len(group.files) > 1, summed=raw["summed"]),
            open_for_writing=tuple(raw["open_for_writing"]),
            from_start=starts_with_exec(head),
            files=len(group.files),
        ),
        slow=tuple(
            SlowCall(**row | {"match": _match(row["match"])})
            for row in sorted(raw["slow"], key=lambda row: -float(row["seconds"]))
        ),
        connections=tuple(syscall_totals.Connection(**row) for row in raw["connections"]),
        name_messages=tuple(syscall_totals.NameMessage(**row) for row in raw["name_messages"]),
        timeouts=tuple(syscall_totals.Timeout(**row) for row in raw["timeouts"]),
        folders=tuple(syscall_totals.FolderCount(*row) for row in raw["folders"]),
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


def _match(row: RawFact) -> Match:
    target, task = _target(row["target"]), Task(**_placed(row["task"]))
    return Match(**row | {"target": target, "task": task})


def _target(row: RawFact) -> Target:
    opened, given = (row[key] and LogPlace(**row[key]) for key in ("opened", "given"))
    return Target(**row | {"opened": opened, "given": given})


def _tasks(rows: list[RawFact]) -> Iterator[Task]:
    """Yield a task for each row, which is gone then: of very many, only one of both fits."""
    rows.reverse()
    while rows:
        yield _task(rows.pop())


def _task(row: RawFact) -> Task:
    nested = {
        "ending": row["ending"] and Ending(**row["ending"]),
        "blocked": row["blocked"] and _blocked(row["blocked"]),
        "calls": tuple(TaskCall(**one) for one in row["calls"]),
        "interruptions": tuple(Interruption(**one) for one in row["interruptions"]),
        "last_failures": tuple(LastFailure(**one) for one in row["last_failures"]),
    }
    return Task(**_placed(row) | nested)


def _placed(row: RawFact) -> RawFact:
    """Return the row of a task with its ranks in place of what they are told by."""
    rest = dict(row)
    variables, words = rest.pop("environment"), row["argv"] or ()
    told = find_placement(dict(one.split("=", 1) for one in variables)) if variables else _NOWHERE
    rank, local = told.rank, told.local_rank
    if any("rank" in word for word in words):
        rank = _option(words, "--rank") if rank is None else rank
        local = _option(words, "--local_rank", "--local-rank") if local is None else local
    return {**rest, "rank": rank, "local_rank": local}


def _option(words: Sequence[str], *names: str) -> int | None:
    """Return the number that an option has, behind ``=`` or as the next word."""
    for word, after in zip(words, (*words[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        number = value if equals else after
        if name in names and number.isdecimal():
            return int(number)
    return None


def _blocked(row: RawFact) -> Blocked:
    nested = {
        "target": row["target"] and _target(row["target"]),
        "awaited": tuple(_awaited(one) for one in row["awaited"]),
        "futex": row["futex"] and FutexUse(**row["futex"]),
    }
    return Blocked(**row | nested)


def _awaited(row: RawFact) -> Awaited:
    holders = tuple(Holder(**one) for one in row["holders"])
    return Awaited(**row | {"target": _target(row["target"]), "holders": holders})
