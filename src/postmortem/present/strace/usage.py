"""Where time and bytes went: slow calls, time-outs, connections, folders, files, tasks."""

from collections import Counter
from collections.abc import Iterator

from postmortem.facts.syscall_totals import Connection
from postmortem.facts.syscalls import SlowCall, SystemCalls, Task
from postmortem.present.strace.places import Storm, mounts, storms
from postmortem.present.strace.view import StraceView
from postmortem.present.strace.waits import time_by_call
from postmortem.report.blocks import Block, Excerpt, Note, Table, Tone
from postmortem.text import counted, size

_ROWS = 5
_MORE_ROWS = 30
_SLOW = 0.1
_DEEPEST = 12
_MOST_TASKS = 400


def usage_blocks(view: StraceView, *, verbose: bool) -> Iterator[Block]:
    """Yield the blocks about time and bytes."""
    for log in view.logs:
        yield from _slow(log, verbose)
        yield from _storms(log, verbose)
        yield from _mounts(log, verbose)
        yield from _files(log, verbose)
        if verbose:
            yield from _time(log)
            yield from _calls(log)
        yield from _tree(log, verbose)


def network_blocks(view: StraceView, *, verbose: bool) -> Iterator[Block]:
    """Yield the blocks about connections and about waits that came back with nothing."""
    for log in view.logs:
        rows = [row for row in log.connections if verbose or not _fine(row)]
        if rows:
            yield Table(
                ("task", "descriptor", "peer", "result", "line"),
                tuple(
                    (str(r.pid), str(r.fd), r.peer, outcome(r), f"{r.line:,}")
                    for r in rows[: _MORE_ROWS if verbose else _ROWS]
                ),
                title="connections" if verbose else "connections that failed or were never made",
                right_aligned=(1, 4),
            )
        fine = Counter(row.result for row in log.connections if _fine(row))
        if fine and rows and not verbose:
            words = ", ".join(f"{count:,} {name}" for name, count in fine.most_common())
            yield Note(f"other connections: {words}", Tone.QUIET)
        yield from _timeouts(log, verbose)


def _fine(row: Connection) -> bool:
    # nscd is asked first by every glibc program that looks up a name; it runs hardly anywhere.
    return row.result in ("connected", "accepted") or "/nscd/" in row.peer


def outcome(row: Connection) -> str:
    """Return how a connection went, in words."""
    if row.result == "timeout":
        after = f" after {row.seconds:.1f} s" if row.seconds else ""
        return f"timeout{after} (EINPROGRESS, and no answer came)"
    if row.result == "EINPROGRESS":
        return "EINPROGRESS (nobody asked what became of it)"
    if row.result == "interrupted":
        after = f" after {row.seconds:.1f} s" if row.seconds else ""
        return f"no answer: interrupted by a signal{after}"
    return row.result


def _timeouts(log: SystemCalls, verbose: bool) -> Iterator[Block]:
    rows = [row for row in log.timeouts if row.seconds >= _SLOW * row.count or not row.seconds]
    rows = sorted(rows, key=lambda row: (-row.seconds, -row.count))
    if not rows:
        return
    yield Table(
        ("call", "times", "seconds", "line", "waited for"),
        tuple(
            (
                r.syscall,
                f"{r.count:,}",
                f"{r.seconds:.3f}" if r.seconds else "",
                f"{r.line:,}",
                r.target or r.text[:80],
            )
            for r in rows[: _MORE_ROWS if verbose else 3]
        ),
        title="waits that timed out, without an error",
        right_aligned=(1, 2, 3),
    )


def _slow(log: SystemCalls, verbose: bool) -> Iterator[Block]:
    work = [one for one in log.slow if one.pace == "work"]
    rest = [one for one in log.slow if one.pace != "work" and one.seconds >= _SLOW]
    most = _MORE_ROWS if verbose else 4
    rows = [one for one in work if verbose or one.seconds >= _SLOW or _on_file(one)][:most]
    rows += rest[: most if verbose else 3]
    if rows:
        yield Table(
            ("seconds", "task", "call", "line", "on"),
            tuple(_slow_row(one) for one in rows),
            title="slowest calls",
            right_aligned=(0, 3),
        )


def _on_file(one: SlowCall) -> bool:
    # What touches no file is slow because the machine was busy.
    return one.seconds >= 0.01 and one.match.target.path is not None


def _slow_row(one: SlowCall) -> tuple[str, ...]:
    match = one.match
    failed = f" = {match.errno}" if match.errno else ""
    line = match.began_line or match.line
    target = match.target.words if match.target.source != "unknown" else ""
    return (
        f"{one.seconds:.3f}",
        str(match.pid),
        match.syscall + failed,
        f"{line:,}",
        target or match.text[:48],
    )


def _storms(log: SystemCalls, verbose: bool) -> Iterator[Block]:
    rows = [storm for storm in storms([log]) if storm.folder != "/" or verbose]
    for storm in rows[: _MORE_ROWS if verbose else 3]:
        yield Note(storm_words(storm), Tone.WARNING if storm.calls >= 10_000 else Tone.PLAIN)


def storm_words(storm: Storm) -> str:
    """Return a sentence on many look-ups below a folder."""
    words = f"metadata: {storm.calls:,} look-ups (open, stat, access, …) below {storm.folder}"
    if storm.folders > 1:
        words += f", in {storm.folders:,} folders"
    said = []
    if storm.rate is not None:
        said.append(f"{storm.rate:,.0f} a second")
    if storm.errors:
        said.append(f"{100 * storm.errors / storm.calls:.0f} % found nothing")
    if storm.inside >= 0.01:
        said.append(f"{storm.inside:.2f} s in all")
    return words + (f": {', '.join(said)}" if said else "")


def _mounts(log: SystemCalls, verbose: bool) -> Iterator[Block]:
    rows = [m for m in mounts([log]) if m.read_bytes or m.written_bytes or m.lookups]
    if len(rows) < 2 and not verbose:
        return
    yield Table(
        ("read", "written", "reads", "writes", "look-ups", "below"),
        tuple(
            (
                size(m.read_bytes),
                size(m.written_bytes),
                f"{m.reads:,}",
                f"{m.writes:,}",
                f"{m.lookups:,}",
                m.prefix,
            )
            for m in rows[: _MORE_ROWS if verbose else 6]
        ),
        title="bytes and calls by place",
        right_aligned=(0, 1, 2, 3, 4),
    )


def _files(log: SystemCalls, verbose: bool) -> Iterator[Block]:
    rows = sorted(log.files, key=lambda row: -(row.read_bytes + row.written_bytes))
    rows = [row for row in rows if row.read_bytes or row.written_bytes]
    if rows:
        yield Table(
            ("read", "written", "reads", "writes", "file"),
            tuple(
                (size(r.read_bytes), size(r.written_bytes), f"{r.reads:,}", f"{r.writes:,}", r.path)
                for r in rows[: _MORE_ROWS if verbose else _ROWS]
            ),
            title="files with the most bytes",
            right_aligned=(0, 1, 2, 3),
        )


def _time(log: SystemCalls) -> Iterator[Block]:
    rows = [
        (str(task.pid), f"{seconds:.3f}", words)
        for task, words, seconds in list(time_by_call(log.tasks))[:_MORE_ROWS]
    ]
    if rows:
        yield Table(
            ("task", "seconds", "most of it in"),
            tuple(rows),
            title="time in system calls, by task",
            right_aligned=(1,),
        )


def _calls(log: SystemCalls) -> Iterator[Block]:
    rows = sorted(log.calls, key=lambda row: -row.calls)[:_MORE_ROWS]
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


def _tree(log: SystemCalls, verbose: bool) -> Iterator[Block]:
    processes = [task for task in log.tasks if task.thread_of is None]
    if len(processes) < 2 or (len(processes) > 12 and not verbose):
        return
    threads = Counter(task.thread_of for task in log.tasks if task.thread_of is not None)
    lines = list(_branches(processes, threads))[:_MOST_TASKS]
    yield Excerpt("processes", tuple((None, line) for line in lines))


def _branches(processes: list[Task], threads: Counter[int]) -> Iterator[str]:
    known = {task.pid for task in processes}
    children: dict[int | None, list[Task]] = {}
    for task in processes:
        parent = task.ppid if task.ppid in known and task.ppid != task.pid else None
        children.setdefault(parent, []).append(task)
    stack = [(task, 0) for task in reversed(children.get(None, []))]
    shown: set[int] = set()
    while stack:
        task, depth = stack.pop()
        yield "   " * min(depth, _DEEPEST) + _branch(task, threads[task.pid])
        if task.pid in shown:  # a pid that came back: its children are shown once
            continue
        shown.add(task.pid)
        stack += [(child, depth + 1) for child in reversed(children.get(task.pid, []))]


def _branch(task: Task, threads: int) -> str:
    words = f"{task.pid} {task.program or '(program not in the log)'}"
    if task.rank is not None:
        words += f" [rank {task.rank}]"
    if threads:
        words += f" + {counted(threads, 'thread')}"
    end = task.ending
    if end is None:
        return words + ("" if task.recorded else ": not recorded")
    how = f"exit {end.code}" if end.signal is None else end.signal
    return f"{words}: {how}"
