"""A job read several times: its ranks each time, their workers where a rank waits for them."""

import time
from collections.abc import Callable, Iterable, Mapping

from postmortem import thresholds
from postmortem.facts.live import Gap, LiveProcess, Motion
from postmortem.facts.process import Process
from postmortem.facts.process_role import process_role
from postmortem.facts.source import Problem
from postmortem.facts.stackdumps import RankStack
from postmortem.facts.threads import Frame, Thread, own_frames, tells_run
from postmortem.readers.launcher import find_placement
from postmortem.readers.live.job_processes import Member, Members
from postmortem.readers.live.snapshot import ReadOptions, read_members
from postmortem.readers.live.status import (
    children,
    descendants,
    read_environment,
    read_status,
    stat_fields,
)
from postmortem.readers.live.tasks import activity
from postmortem.records import record, replace

_MOST_WORKERS = 64
_SETTLE_SECONDS = 0.3
_MOST_LOOK_SECONDS = 3.0
_LOOK_SECONDS = 0.02
"""Between two looks at a busy process: its time is its own for most of the while."""
_GOLDEN = 0.618
_SERVANTS = ("resource tracker of multiprocessing", "fork server of multiprocessing")


@record
class Samples:
    """What was read, before anybody has asked what it means."""

    ranks: tuple[LiveProcess, ...]
    """As the last sample has them."""
    members: Mapping[int, Member]
    stacks: tuple[RankStack, ...]
    """Of the ranks' main threads in all samples, in the order of time."""
    moved: tuple[str, ...]
    """Labels of ranks that were in another place of the user's code each time."""
    running: tuple[str, ...]
    """Labels of ranks that ran in every sample."""
    activity: Mapping[int, tuple[Gap, ...]]
    """By pid: what its main thread did between the samples."""
    taken: int
    """How many samples there are."""
    workers: tuple[LiveProcess, ...] = ()
    problems: tuple[Problem, ...] = ()

    def without_failed(self) -> "Samples":
        """Return those of ranks that have not failed since.

        What a failed one did, its own log tells: where it stands now says nothing.
        """
        failed = {one.label for one in self.stacks if tells_run(one.thread)}
        return replace(
            self,
            ranks=tuple(one for one in self.ranks if one.label not in failed),
            stacks=tuple(one for one in self.stacks if one.label not in failed),
        )

    def motions(self) -> tuple[Motion, ...]:
        """Return how ranks moved between the samples."""
        rows = []
        for one in self.ranks:
            gaps = self.activity.get(one.pid, ())
            seconds = sum(gap.seconds for gap in gaps)
            if seconds > 0:
                cpu = sum(gap.cpu_seconds for gap in gaps)
                switches = sum(gap.switches for gap in gaps)
                moved, runs = one.label in self.moved, one.label in self.running
                share = min(1.0, cpu / seconds)
                rows.append(Motion(one.label, share, switches, moved, runs, gaps))
        return tuple(rows)


def watch(
    members: Members,
    options: ReadOptions,
    *,
    samples: int,
    gap_seconds: float,
    within_seconds: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Samples:
    """Return the samples; nothing is stopped or read between them.

    After `within_seconds` one more is the last, the second at the earliest.
    """
    started = time.monotonic()
    problems: list[Problem] = list(members.problems)
    stacks: list[RankStack] = []
    ranks: dict[int, LiveProcess] = {}
    leaders = {one.status.pid: one for one in members.leaders}
    gaps: dict[int, tuple[Gap, ...]] = {}
    for number in range(samples):
        before: dict[int, tuple[float, int]] = {}
        if number:
            _settle(leaders)
            before = {pid: now for pid in leaders if (now := activity(pid)) is not None}
            began = time.monotonic()
            if progress is not None:
                progress(f"sample {number} of {samples} taken; waiting {gap_seconds:g} s")
            # Not quite evenly: what comes round as often must not be met in one phase alone.
            time.sleep(gap_seconds * (0.75 + number * _GOLDEN % 0.5))
            _add_activity(gaps, before, time.monotonic() - began)
        late = within_seconds is not None and time.monotonic() - started >= within_seconds
        is_last = number == samples - 1 or (late and number > 0)
        # Who is read first stands still while the others go on: each is that as often as another.
        order = reversed(leaders) if number % 2 else leaders
        found = read_members(
            {pid: leaders[pid] for pid in order}, options, problems if is_last else []
        )
        found = {pid: found[pid] for pid in leaders if pid in found}
        if number == 0:
            found, leaders = _by_rank(found, leaders, options, problems)
        found = _labelled(found)
        stacks += [_stack(one) for one in found.values() if _has_stack(one)]
        ranks = found or ranks
        if is_last:
            break
    return Samples(
        taken=number + 1,
        ranks=tuple(ranks.values()),
        members=leaders,
        stacks=tuple(stacks),
        moved=_moved(stacks),
        running=_running(stacks),
        activity=gaps,
        problems=tuple(dict.fromkeys(problems)),
    )


def _settle(pids: Iterable[int]) -> None:
    """Wait a little until those that we let go sleep again: what we did must not look like work.

    On a busy machine a thread that was stopped gets a processor late, and is taken off it before
    it has begun its wait anew.
    """
    end = time.monotonic() + _SETTLE_SECONDS
    rest = list(pids)
    while rest and time.monotonic() < end:
        time.sleep(0.01)
        fields = {pid: stat_fields(f"/proc/{pid}/task/{pid}/stat") for pid in rest}
        rest = [pid for pid, row in fields.items() if row is not None and row[0] in ("R", "t")]


def read_workers(samples: Samples, of: tuple[int, ...], options: ReadOptions) -> Samples:
    """Return the samples with the processes that work for some ranks."""
    problems = list(samples.problems)
    found = {one.pid: one for one in samples.workers}
    for pid in of:
        member = samples.members.get(pid)
        if member is None:
            continue
        wanted = _members(pid for pid in member.workers if pid not in found)
        room = _MOST_WORKERS - len(found)
        if len(wanted) > room:
            what = f"{len(wanted) - max(0, room)} of its {len(wanted)} children were not read"
            problems.append(Problem(f"pid {pid}", what, "name them: postmortem hang PID"))
            wanted = dict(list(wanted.items())[: max(0, room)])
        for one in read_members(wanted, options, problems).values():
            role = _role(one)
            if role not in _SERVANTS:
                label = f"{role or 'child'} pid {one.pid}"
                found[one.pid] = replace(one, works_for=pid, role=role, label=label)
    return replace(samples, workers=tuple(found.values()), problems=tuple(dict.fromkeys(problems)))


def look_often(
    samples: Samples, pids: Iterable[int], options: ReadOptions, *, looks: int
) -> Mapping[int, list[tuple[Frame, ...]]]:
    """Return the stacks of main threads, by pid, from many looks in a row.

    The looks come behind all samples, between which nothing may be stopped. They end after some
    seconds, however few there were; a process that ends meanwhile has fewer.
    """
    left = {pid: samples.members[pid] for pid in pids if pid in samples.members}
    found: dict[int, list[tuple[Frame, ...]]] = {pid: [] for pid in left}
    end = time.monotonic() + _MOST_LOOK_SECONDS
    for number in range(looks):
        if not left or (number >= thresholds.HOT_PATH_LOOKS and time.monotonic() > end):
            break
        rows = read_members(left, options, [])
        left = {pid: left[pid] for pid in rows}
        for pid, one in rows.items():
            if one.main_thread is not None and one.main_thread.frames:
                found[pid].append(one.main_thread.frames)
        time.sleep(_LOOK_SECONDS)
    return found


def missing_local_ranks(ranks: tuple[LiveProcess, ...]) -> tuple[int, ...]:
    """Return the local ranks that the launcher should have here, and that are not its children.

    None where a child's variables cannot be read, or where the parent is a rank itself.
    """
    parents = {one.ppid for one in ranks}
    sizes = {_size(one) for one in ranks}
    if len(parents) != 1 or len(sizes) != 1 or None in sizes or parents & {0, 1}:
        return ()
    if any(one.local_rank is None for one in ranks):
        return ()
    here = set()
    for pid in children().get(next(iter(parents)), ()):
        status = read_status(pid)
        if status is not None and status.state not in ("Z", "X"):
            env = read_environment(pid)
            if env is None:
                return ()
            here.add(find_placement(env).local_rank)
    size = next(iter(sizes)) or 0
    return tuple(local for local in range(min(size, 4096)) if local not in here)


def _size(one: LiveProcess) -> int | None:
    text = next((value for name, value in one.env if name == "LOCAL_WORLD_SIZE"), "")
    return int(text) if text.isdecimal() and len(text) < 6 else None


def _by_rank(
    found: dict[int, LiveProcess],
    leaders: dict[int, Member],
    options: ReadOptions,
    problems: list[Problem],
) -> tuple[dict[int, LiveProcess], dict[int, Member]]:
    """Put the children in the place of a process that only started ranks (mp.spawn).

    Such ranks have RANK in os.environ, and not in the environment that they were started with.
    """
    for pid, process in list(found.items()):
        member = leaders[pid]
        if process.rank is not None or not member.workers:
            continue
        inside = _members(member.workers[:_MOST_WORKERS])
        below = read_members(inside, options, problems)
        ranks = {
            child: one
            for child, one in below.items()
            if one.rank is not None and (one.ppid not in below or below[one.ppid].rank != one.rank)
        }
        if len({one.rank for one in ranks.values()}) < 2:
            continue
        del found[pid], leaders[pid]
        found |= ranks
        tree = children()
        leaders |= {
            child: replace(inside[child], workers=tuple(descendants([child], tree))[:_MOST_WORKERS])
            for child in ranks
        }
    order = sorted(found, key=lambda pid: (found[pid].rank or 0, pid))
    return {pid: found[pid] for pid in order}, leaders


def _members(pids: Iterable[int]) -> dict[int, Member]:
    found = {}
    for pid in pids:
        status = read_status(pid)
        if status is not None and status.state not in ("Z", "X"):
            found[pid] = Member(status, find_placement(read_environment(pid) or {}))
    return found


def _labelled(ranks: dict[int, LiveProcess]) -> dict[int, LiveProcess]:
    """Name the part of each; ranks of several jobs that share a number get their pid, too."""
    labels = [one.label for one in ranks.values()]
    return {
        pid: replace(
            one,
            role=_role(one),
            label=one.label if labels.count(one.label) == 1 else f"{one.label}, pid {pid}",
        )
        for pid, one in ranks.items()
    }


def _moved(stacks: Iterable[RankStack]) -> tuple[str, ...]:
    """Return who was not always in the same place of its own code.

    Of a thread that runs the functions count: the lines of a loop are no other place.
    """
    seen: dict[str, set[tuple[object, ...]]] = {}
    rows = list(stacks)
    running = set(_running(rows))
    for one in rows:
        lined = one.label not in running
        place = tuple(
            (f.function, f.file, f.line if lined or i else None)
            for i, f in enumerate(_compared(one.thread)[:8])
        )
        seen.setdefault(one.label, set()).add(place)
    return tuple(label for label, places in seen.items() if len(places) > 1)


def _compared(thread: Thread) -> tuple[Frame, ...]:
    """Return the frames that tell whether a thread moves: without Python those of libraries too."""
    if any(f.kind == "python" for f in thread.frames):
        return own_frames(thread)
    return tuple(f for f in thread.frames if f.function != "??")


def _running(stacks: Iterable[RankStack]) -> tuple[str, ...]:
    found: dict[str, bool] = {}
    for one in stacks:
        found[one.label] = found.get(one.label, True) and one.is_running is True
    return tuple(label for label, always in found.items() if always)


def _role(one: LiveProcess) -> str | None:
    process = Process(pid=one.pid, machine="", argv=one.argv, rank=one.rank)
    return process_role(process, one.threads)


def _has_stack(one: LiveProcess) -> bool:
    thread = one.main_thread
    return thread is not None and bool(thread.frames)


def _stack(one: LiveProcess) -> RankStack:
    thread = one.main_thread
    assert thread is not None
    task = one.task(one.pid)
    return RankStack(
        label=one.label,
        rank=one.rank,
        host=None,
        where=f"pid {one.pid}",
        thread=thread,
        tool=one.reading.way,
        is_running=task.state == "R" if task is not None else None,
        is_stopped=task is not None and task.state == "T",
    )


def _add_activity(
    gaps: dict[int, tuple[Gap, ...]], before: Mapping[int, tuple[float, int]], seconds: float
) -> None:
    for pid, (cpu, switches) in before.items():
        now = activity(pid)
        if now is not None:
            found = Gap(seconds, now[0] - cpu, now[1] - switches)
            gaps[pid] = (*gaps.get(pid, ()), found)
