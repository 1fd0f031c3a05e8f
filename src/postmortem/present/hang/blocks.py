"""The report on live processes, block by block: who is stuck, in what, and where all stand."""

from collections.abc import Iterator

from postmortem.diagnose.hang.live_waits import hot_words, place_words, wait_words, waits_words
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.stacks.activity import kind_of, role
from postmortem.diagnose.stacks.groups import groups
from postmortem.diagnose.stacks.names import location, shorten
from postmortem.facts.live import LiveJob, LiveProcess
from postmortem.facts.threads import Frame, Thread, is_ours
from postmortem.present.async_tasks import greenlet_block, task_block
from postmortem.present.ranks.stacks import tree_block
from postmortem.report.blocks import Backtrace, BacktraceLine, Block, KeyValues, Note, Table, Tone
from postmortem.text import counted, more

_FRAMES = 16
_ROWS = 16
_STACKS = 2
_GROUPS = 6
_DESCRIPTORS = 24


def hang_blocks(job: LiveJob, blame: Attribution, *, verbose: bool) -> tuple[Block, ...]:
    """Return the blocks in the order in which they are read."""
    suspects = _suspects(job, blame)
    blocks: list[Block] = []
    for one in suspects if verbose else suspects[:_STACKS]:
        blocks += _suspect(one, job, verbose=verbose)
    if len(job.ranks()) > 1 and len(job.stacks):
        blocks.append(tree_block(job.stacks, verbose=verbose))
    blocks += _ras(job, verbose=verbose)
    blocks.append(_processes(job, verbose=verbose))
    if verbose:
        told = [one.pid for one in suspects]
        blocks += [b for one in job.processes for b in _everything(one, told=one.pid in told)]
    return tuple(blocks)


def _ras(job: LiveJob, *, verbose: bool) -> Iterator[Block]:
    """Yield what NCCL says itself; that it finds nothing is worth a line, too."""
    if job.nccl_ras is None:
        return
    rows = [("errors", line) for line in job.nccl_ras.errors]
    rows += [("warnings", line) for line in job.nccl_ras.warnings]
    shown = rows if verbose else rows[:_ROWS]
    if len(shown) < len(rows):
        shown.append(("", f"{counted(len(rows) - len(shown), 'more line')} with -v"))
    none = [("", "no errors, no warnings: communicators are whole, and all ranks answer")]
    yield KeyValues(tuple(shown or none), title="NCCL's own view (RAS)")


def _suspects(job: LiveJob, blame: Attribution) -> list[LiveProcess]:
    named = [job.process(party.label) for party in (*blame.first, *blame.candidates)]
    found = [one for one in named if one is not None]
    ranks = job.ranks()
    return found or list(ranks[:1] if len(ranks) == 1 else [])


def _suspect(one: LiveProcess, job: LiveJob, *, verbose: bool) -> Iterator[Block]:
    thread = one.main_thread
    if thread is None:
        return
    yield KeyValues(tuple(_about(one, thread, job)))
    yield _stack(one, thread, f"main thread of {_who(one)}", verbose=verbose)
    for block in (task_block, greenlet_block):
        if (table := block(one.threads, verbose=verbose)) is not None:
            yield table
    for tid in _holders(one, thread):
        holder = next((other for other in one.threads if other.tid == tid), None)
        if holder is not None:
            yield _stack(one, holder, f"{holder.words}, who holds it", verbose=verbose)
    for worker in job.workers(one.pid)[: None if verbose else 1]:
        main = worker.main_thread
        if main is not None and main.frames:
            title = f"main thread of {worker.label}, which works for {one.label}"
            yield _stack(worker, main, title, verbose=verbose)


def _about(one: LiveProcess, thread: Thread, job: LiveJob) -> Iterator[tuple[str, str]]:
    yield "stuck" if len(job.ranks()) > 1 else "process", f"{_who(one)}, {_argv(one)}"
    yield "thread", f"{thread.words.removeprefix('thread ')} (main)"
    place = place_words(thread)
    if place:
        yield "at", place
    yield "does", waits_words(one, thread)
    task = one.task(thread.tid)
    if task is not None and task.call is not None and thread.waits_for is not None:
        yield "system call", task.call.words
    if task is not None and task.wait_channel:
        yield "kernel", f"state {task.state}, in {task.wait_channel}"
    motion = job.motion(one.label)
    if motion is not None:
        yield "watched", _motion(job, one.label)
    hot = job.hot_path(one.pid)
    if hot is not None:
        yield "busy in", hot_words(hot)
    for worker in job.workers(one.pid)[:4]:
        main = worker.main_thread
        if main is not None:
            at = place_words(main, most=1)
            yield (
                "its child",
                f"{worker.label} {waits_words(worker, main)}" + (f" at {at}" if at else ""),
            )


def _motion(job: LiveJob, label: str) -> str:
    motion = job.motion(label)
    assert motion is not None
    seconds = f"{job.watched_seconds:g} s"
    if motion.is_still:
        return f"did not run for {seconds}"
    place = "in another place" if motion.moved else "in the same place"
    return (
        f"{place} after {seconds}, {motion.cpu_share:.0%} of it on a processor, "
        f"woke {motion.switches} times"
    )


def _holders(one: LiveProcess, thread: Thread) -> list[int]:
    found: list[int] = []
    wait = thread.waits_for
    while wait is not None and wait.holder is not None and wait.holder not in found:
        if wait.holder == thread.tid or len(found) >= 3:
            break
        found.append(wait.holder)
        holder = next((other for other in one.threads if other.tid == wait.holder), None)
        wait = holder.waits_for if holder is not None else None
    return found


def _processes(job: LiveJob, *, verbose: bool) -> Table:
    rows = []
    shown = job.processes if verbose else job.processes[:_ROWS]
    for one in shown:
        thread = one.main_thread
        does = wait_words(one, thread) if thread is not None else ""
        place = place_words(thread, most=1) if thread is not None else ""
        motion = _moved(job, one)
        rows.append((one.label, str(one.pid), one.state, motion, place or "?", does))
    left = len(job.processes) - len(shown)
    title = "processes" + more(left, ", {} more with -v")
    return Table(("who", "pid", "state", "moves", "at", "does"), tuple(rows), title)


def _moved(job: LiveJob, one: LiveProcess) -> str:
    motion = job.motion(one.label) if one.works_for is None else None
    if motion is None:
        return "?"
    if motion.is_still:
        return "no"
    if motion.is_busy:
        return "busy"
    return "yes"


def _everything(one: LiveProcess, *, told: bool) -> Iterator[Block]:
    """Yield all of a process; its main thread's stack only if it was not `told` above."""
    main = one.main_thread
    yield Note(f"{_who(one)}: {one.reading.words}", Tone.QUIET)
    for group in groups(one.threads, one.executable)[:_GROUPS]:
        first = group.threads[0]
        if main is not None and first.tid == main.tid and len(group.threads) == 1:
            if told:
                continue
            title = f"main thread of {_who(one)}"
        else:
            title = f"{counted(len(group.threads), 'thread')} of {_who(one)}: {first.words}"
        yield _stack(one, first, title, verbose=True)
    rows = tuple((str(d.fd), d.inside) for d in one.descriptors)
    if rows:
        left = len(rows) - _DESCRIPTORS
        others = more(left, ", {} more in the JSON")
        yield Table(("fd", "what"), rows[:_DESCRIPTORS], f"open files of {_who(one)}{others}")


def _stack(one: LiveProcess, thread: Thread, title: str, *, verbose: bool) -> Backtrace:
    frames = thread.frames
    shown = [(i, frame) for i, frame in enumerate(frames) if not is_ours(frame.file)]
    of_ours = len(frames) - len(shown)
    if not verbose:
        shown = [(i, f) for i, f in shown if not kind_of(f, one.executable).noise or i == 0]
        shown = shown[:_FRAMES]
    lines = [_line(i, frame, one.executable) for i, frame in shown]
    if rest := len(frames) - of_ours - len(shown):
        left = f"… {counted(rest, 'more frame')} (-v shows them)"
        lines.append(BacktraceLine(function=left, tone=Tone.QUIET))
    if not frames:
        why = f"no frames: {thread.stopped or 'its stack was not read'}"
        lines = [BacktraceLine(function=why, tone=Tone.WARNING)]
    remarks = (role(thread, one.pid, one.executable), wait_words(one, thread))
    return Backtrace(title, tuple(lines), " · ".join(r for r in remarks if r and r != "main"))


def _line(index: int, frame: Frame, executable: str | None) -> BacktraceLine:
    python = frame.kind == "python"
    module = (frame.module or "").rpartition("/")[2] or None
    return BacktraceLine(
        function=frame.function if python else shorten(frame.function),
        index=index,
        module="Python" if python else module,
        location=location(frame.file, frame.line),
        note=kind_of(frame, executable).note,
        tone=Tone.STRONG if python else Tone.PLAIN,
    )


def _who(one: LiveProcess) -> str:
    return one.label if str(one.pid) in one.label else f"{one.label} (pid {one.pid})"


def _argv(one: LiveProcess) -> str:
    text = " ".join(one.argv)
    return text if len(text) <= 120 else f"{text[:118]} …"
