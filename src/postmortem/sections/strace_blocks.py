"""The report of a system-call log, block by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from postmortem.facts.syscalls import FailedCalls, Match, SystemCalls, Task
from postmortem.report.blocks import Block, Excerpt, KeyValues, Note, Table, Tone
from postmortem.sections.quantities import counted, size, some
from postmortem.sections.strace_view import Found, StraceView

_GROUPS_SHOWN = 3
_CALLS_SHOWN = 4
_ROWS_SHOWN = 10
_LONGEST_CALL = 160


def strace_blocks(view: StraceView, *, verbose: bool) -> tuple[Block, ...]:
    """Return the blocks in the order in which they are read."""
    blocks: list[Block] = []
    if view.summary:
        blocks += _endings(view, verbose)
        blocks += _group_blocks(view.failed, verbose)
        blocks += _errors(view, verbose)
        blocks += _waiting(view, verbose)
    for found in view.finds:
        blocks += _found(found, verbose)
    if view.summary:
        blocks += _totals(view, verbose)
    return tuple(blocks)


def _found(found: Found, verbose: bool) -> Iterator[Block]:
    yield from _group_blocks(found.groups, verbose)
    left = len(found.groups) - _GROUPS_SHOWN
    if left > 0 and not verbose:
        yield Note(f"{counted(left, 'more target')} of {found.query}: -v or --json shows them")


def _group_blocks(groups: tuple[FailedCalls, ...], verbose: bool) -> Iterator[Block]:
    for group in groups if verbose else groups[:_GROUPS_SHOWN]:
        yield KeyValues(tuple(_group_rows(group)), title=f"{group.errno}: {group.target.words}")
        shown = group.matches if verbose else group.matches[:_CALLS_SHOWN]
        lines: list[tuple[int | None, str]] = [(m.line, _call(m, verbose)) for m in shown]
        if len(shown) < len(group.matches):
            last = group.matches[-1]
            lines.append(
                (
                    None,
                    f"… {len(group.matches) - len(shown):,} more, the last at line {last.line:,}",
                )
            )
        files = {m.file for m in group.matches}
        yield Excerpt(f"calls in {group.first.file}" if len(files) == 1 else "calls", tuple(lines))


def _group_rows(group: FailedCalls) -> Iterator[tuple[str, str]]:
    match, target = group.first, group.target
    if not group.real:
        yield "not real", "strace injected this failure itself (-e inject)"
    who = f"pid {match.pid}"
    if match.task.program:
        who += f"  {match.task.program}"
    if match.task.thread_of:
        who += f"  (thread of {match.task.thread_of})"
    elif match.task.ppid:
        who += f"  (child of {match.task.ppid})"
    yield "who", who
    others = {m.pid for m in group.matches} - {match.pid}
    if others:
        yield "also", "pids " + some(sorted(others))
    if target.opened is not None:
        flags = f" {target.flags}" if target.flags else ""
        words = f"opened at line {target.opened.line:,} by pid {target.opened.pid} with "
        words += f"{target.opened.syscall}{flags}"
        if match.fd is not None:
            words += f", here descriptor {match.fd}"
        given = target.given
        if given is not None and given.line != target.opened.line:
            words += f" (by {given.syscall} of pid {given.pid} at line {given.line:,})"
        yield "file", words
    if target.written_bytes:
        yield "written", f"{size(target.written_bytes)} before the first failure"
    yield "how known", _how(match)


def _how(match: Match) -> str:
    target = match.target
    if target.path is None and target.opened is None:
        return "unknown: the descriptor is older than the log, or its open was not recorded"
    words = {
        "tracked": "followed from the call that opened it",
        "annotated": "strace wrote it beside the descriptor (-y)",
        "argument": "the call names it",
    }.get(target.source, target.source)
    return words + (", paired by order alone" if target.guessed else "")


def _call(match: Match, verbose: bool) -> str:
    text = match.text if verbose or len(match.text) <= _LONGEST_CALL else _middle(match.text)
    began = f"  (began at line {match.began_line:,})" if match.began_line else ""
    return f"{text}{began}{'  (injected)' if match.injected else ''}"


def _middle(text: str) -> str:
    half = _LONGEST_CALL // 2 - 2
    return f"{text[:half]} … {text[-half:]}"


def _endings(view: StraceView, verbose: bool) -> Iterator[Block]:
    tasks = [task for log in view.logs for task in log.tasks]
    bad = [task for task in tasks if task.thread_of is None and _bad(task)]
    rows = [(f"pid {task.pid}", _ending(task)) for task in (bad if verbose else bad[:_ROWS_SHOWN])]
    fine = sum(1 for t in tasks if t.ending is not None and t.ending.code == 0)
    still = sum(1 for t in tasks if t.ending is None)
    words = []
    if fine:
        words.append(f"{fine} exited with 0")
    if still:
        words.append(f"{still} had not ended when the log did")
    if words:
        rows.append(("others" if rows else "tasks", ", ".join(words)))
    if rows:
        yield KeyValues(tuple(rows), title="ended")


def _bad(task: Task) -> bool:
    end = task.ending
    return end is not None and end.code != 0


def _ending(task: Task) -> str:
    end = task.ending
    assert end is not None
    how = f"exit code {end.code}"
    if end.signal is not None:
        how = f"killed by {end.signal}" + (", core dumped" if end.core else "")
        if end.sender is not None and end.sender != task.pid:
            how += f", sent by pid {end.sender}"
    if end.signal is not None and task.blocked is not None:
        how += f", while in {task.blocked.syscall}"
    program = f"   {task.program}" if task.program else ""
    return f"{how} (line {end.line:,}){program}"


def _errors(view: StraceView, verbose: bool) -> Iterator[Block]:
    shown = {(g.errno, g.target.path) for g in view.failed}
    rows = [row for row in view.real_errors if (row.errno, row.path) not in shown]
    if rows:
        yield Table(
            ("errno", "call", "times", "line", "on"),
            tuple(
                (r.errno, r.syscall, f"{r.count:,}", f"{r.line:,}", r.path or "")
                for r in (rows if verbose else rows[:_ROWS_SHOWN])
            ),
            title="other failures that may matter",
            right_aligned=(2, 3),
        )
    for name, folders in view.missing_libraries[: None if verbose else _ROWS_SHOWN]:
        where = f"looked for in {counted(len(folders), 'folder')}"
        yield Note(f"library never found: {name}, {where}: {some(folders, 4)}", Tone.WARNING)
    every = Counter[str]()
    for log in view.logs:
        for row in log.errors:
            every[row.errno] += row.count
    for row in view.real_errors:
        every[row.errno] -= row.count
    left = +every
    if left:
        words = ", ".join(f"{name} {count:,}" for name, count in left.most_common(4))
        yield Note(f"{left.total():,} harmless errors left out ({words})", Tone.QUIET)


def _waiting(view: StraceView, verbose: bool) -> Iterator[Block]:
    tasks = [t for log in view.logs for t in log.tasks if t.blocked is not None]
    rows = []
    for task in tasks if verbose else tasks[:_ROWS_SHOWN]:
        blocked = task.blocked
        assert blocked is not None
        target = "" if blocked.target is None else blocked.target.words
        rows.append(
            (str(task.pid), blocked.syscall, f"{blocked.line:,}", target or _short(blocked.text))
        )
    if rows:
        left = f", {len(rows)} of {len(tasks)}" if len(rows) < len(tasks) else ""
        yield Table(
            ("task", "call", "line", "on"),
            tuple(rows),
            title=f"in a call when they or the log ended{left}",
            right_aligned=(2,),
        )


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"


def _totals(view: StraceView, verbose: bool) -> Iterator[Block]:
    for log in view.logs:
        yield from _files(log, verbose)
        if verbose:
            rows = sorted(log.calls, key=lambda row: -row.calls)[:30]
            yield Table(
                ("call", "times", "errors", "seconds"),
                tuple(
                    (
                        r.name,
                        f"{r.calls:,}",
                        f"{r.errors:,}",
                        "" if r.seconds is None else f"{r.seconds:.3f}",
                    )
                    for r in rows
                ),
                title="system calls",
                right_aligned=(1, 2, 3),
            )


def _files(log: SystemCalls, verbose: bool) -> Iterator[Block]:
    rows = sorted(log.files, key=lambda row: -(row.read_bytes + row.written_bytes))
    rows = [row for row in rows if row.read_bytes or row.written_bytes]
    if rows:
        yield Table(
            ("read", "written", "opens", "file"),
            tuple(
                (size(r.read_bytes), size(r.written_bytes), f"{r.opens:,}", r.path)
                for r in rows[: 30 if verbose else 5]
            ),
            title="files with the most bytes",
            right_aligned=(0, 1, 2),
        )
