"""The report of a system-call log, block by block."""

from collections import Counter
from collections.abc import Iterator

from postmortem.diagnose.strace.calls import who
from postmortem.facts.syscall_logs import FROM_OUTSIDE
from postmortem.facts.syscalls import FailedCalls, Match, Task
from postmortem.present.strace.places import shared_prefix
from postmortem.present.strace.usage import network_blocks, usage_blocks
from postmortem.present.strace.view import Found, StraceView
from postmortem.present.strace.waits import interruption_words, waiting
from postmortem.report.blocks import Block, Excerpt, KeyValues, Note, Table, Tone
from postmortem.text import counted, size, some

_GROUPS_SHOWN = 3
_CALLS_SHOWN = 4
_ROWS_SHOWN = 10
_LONGEST_CALL = 160


def strace_blocks(view: StraceView, *, verbose: bool) -> tuple[Block, ...]:
    """Return the blocks in the order in which they are read."""
    blocks: list[Block] = []
    if view.summary:
        blocks += _endings(view, verbose)
        blocks += _last(view, verbose)
        blocks += _group_blocks(view.failed, verbose)
        blocks += _errors(view, verbose)
        blocks += _waiting(view, verbose)
    for found in view.finds:
        blocks += _found(found, verbose)
    if view.summary:
        blocks += network_blocks(view, verbose=verbose)
        blocks += usage_blocks(view, verbose=verbose)
        for one in view.remarks:
            remedy = f" ({one.remedy})" if one.remedy else ""
            blocks.append(Note(f"{one.what}{remedy}", Tone.QUIET))
    return tuple(blocks)


def _last(view: StraceView, verbose: bool) -> Iterator[Block]:
    """Yield what processes that exited with an error said, and what failed last."""
    tasks = [task for log in view.logs for task in log.tasks]
    words = [task for task in tasks if task.thread_of is None and _bad(task) and task.last_words]
    for task in words[-2:] if not verbose else words:
        lines = "".join(task.last_words).splitlines()
        said: list[tuple[int | None, str]] = [(None, line) for line in lines[-6:] if line.strip()]
        if said:
            yield Excerpt(f"last words of {who(task.pid)} on standard error", tuple(said))
    if any(group.real for group in view.failed) and not verbose:
        return  # they say it better
    for task, failures in view.last_failures[: None if verbose else 2]:
        yield Table(
            ("errno", "call", "line", "on"),
            tuple((f.errno, f.syscall, f"{f.line:,}", f.path or "") for f in failures),
            title=f"last failures before {who(task.pid)} exited with "
            f"{task.ending.code if task.ending else None}",
            right_aligned=(2,),
        )


def _found(found: Found, verbose: bool) -> Iterator[Block]:
    yield from _group_blocks(found.groups, verbose)
    paths = {group.target.path for group in found.groups if group.target.path is not None}
    prefix = shared_prefix(paths) if len(paths) > 1 else None
    if prefix is not None:
        all_of = "both" if len(paths) == 2 else f"all {len(paths):,}"
        yield Note(f"{all_of} targets of {found.query} are under {prefix}")
    left = len(found.groups) - _GROUPS_SHOWN
    if left > 0 and not verbose:
        yield Note(f"{counted(left, 'more target')} of {found.query}: -v or --json shows them")


def _group_blocks(groups: tuple[FailedCalls, ...], verbose: bool) -> Iterator[Block]:
    for group in groups if verbose else groups[:_GROUPS_SHOWN]:
        yield KeyValues(tuple(_group_rows(group)), title=_group_title(group))
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


def _group_title(group: FailedCalls) -> str:
    if group.first.fd is None and group.target.path is None:
        return group.errno  # it was about no file: wait4, SIGCHLD
    return f"{group.errno}: {group.target.words}"


def _group_rows(group: FailedCalls) -> Iterator[tuple[str, str]]:
    match, target = group.first, group.target
    if not group.real:
        yield "not real", "strace injected this failure itself (-e inject)"
    caller = who(match.pid)
    if match.task.program:
        caller += f"  {match.task.program}"
    if match.task.thread_of:
        caller += f"  (thread of {match.task.thread_of})"
    elif match.task.ppid:
        caller += f"  (child of {match.task.ppid})"
    if match.task.rank is not None:
        caller += f"  rank {match.task.rank}"
    elif match.task.local_rank is not None:
        caller += f"  local rank {match.task.local_rank}"
    yield "who", caller
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
    if match.fd is not None or target.path is not None:
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
    if match.seconds is not None and not match.text.endswith(">"):
        began += f"  ({match.seconds:.3f} s)"
    return f"{text}{began}{'  (injected)' if match.injected else ''}"


def _middle(text: str) -> str:
    half = _LONGEST_CALL // 2 - 2
    return f"{text[:half]} … {text[-half:]}"


def _endings(view: StraceView, verbose: bool) -> Iterator[Block]:
    tasks = [task for log in view.logs for task in log.tasks]
    bad = [task for task in tasks if task.thread_of is None and _bad(task)]
    went_on = {task.pid for task in tasks if not _bad(task)}
    minor = [] if verbose else [t for t in bad if _of_no_harm(t, went_on)]
    bad = [task for task in bad if task not in minor]
    rows = [(who(task.pid), _ending(task)) for task in (bad if verbose else bad[:_ROWS_SHOWN])]
    if len(bad) > len(rows):
        rows.append(
            ("more", f"{counted(len(bad) - len(rows), 'other')} ended badly: -v shows them")
        )
    if minor:
        names = Counter((t.argv[0].rpartition("/")[2] if t.argv else "?") for t in minor)
        words = ", ".join(f"{name} {count}" for name, count in names.most_common(4))
        rows.append(
            (
                counted(len(minor), "child", "children"),
                f"exited with an error, and the parent went on: {words}",
            )
        )
    fine = sum(1 for t in tasks if t.ending is not None and t.ending.code == 0)
    still = sum(1 for t in tasks if t.ending is None and t.recorded)
    left = []
    if fine:
        left.append(f"{fine} exited with 0")
    if still:
        left.append(f"{still} had not ended when the log did")
    if left:
        rows.append(("others" if rows else "tasks", ", ".join(left)))
    if rows:
        yield KeyValues(tuple(rows), title="ended")


def _of_no_harm(task: Task, went_on: set[int]) -> bool:
    """Return whether a child exited with an error that its parent took as an answer."""
    return task.ending is not None and task.ending.signal is None and task.ppid in went_on


def _bad(task: Task) -> bool:
    end = task.ending
    return end is not None and end.code != 0


def _ending(task: Task) -> str:
    end = task.ending
    assert end is not None
    how = f"exit code {end.code}"
    if end.signal is not None:
        how = f"killed by {end.signal}" + (", core dumped" if end.core else "")
        if end.sender_pid is not None:
            itself = end.sender_pid == task.pid
            how += ", sent by itself" if itself else f", sent by pid {end.sender_pid}"
        elif end.signal in FROM_OUTSIDE:
            how += ", sent from outside the log"
    if end.signal is not None and task.blocked is not None:
        how += f", while in {task.blocked.syscall}"
    asked = interruption_words(task)
    if asked is not None and (end.signal is not None or end.code):
        how += f"; before that, {asked}"
    if not end.told:
        how += ", by its call to exit"
    program = f"   {task.program}" if task.program else ""
    if task.rank is not None:
        program += f"   rank {task.rank}"
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
    for log in view.logs:
        groups = waiting(log)
        rows = groups if verbose else groups[:_ROWS_SHOWN]
        if not rows:
            continue
        tasks = sum(len(row.tasks) for row in groups)
        timed = any(row.duration for row in rows)
        yield Table(
            ("tasks", "call", *(("for",) if timed else ()), "line", "waits for"),
            tuple(
                (
                    some([task.pid for task in row.tasks], 3),
                    row.syscall,
                    *((row.duration,) if timed else ()),
                    f"{row.line:,}",
                    row.what,
                )
                for row in rows
            ),
            title=f"{counted(tasks, 'task')} in a call when they or the log ended",
            right_aligned=(2, 3) if timed else (2,),
        )
        if len(rows) < len(groups):
            yield Note(f"{counted(len(groups) - len(rows), 'more kind')} of waits: -v", Tone.QUIET)
