"""What is known of a run once it is over, in plain values."""

import signal
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from postmortem.facts.crash import CRASH_SIGNALS
from postmortem.readers.siginfo import signal_name
from postmortem.records import of_row, record
from postmortem.run.family import Member, box_of
from postmortem.run.outcome import CRASH_LEAD_SECONDS, Outcome
from postmortem.run.raises import Raise

CORE_SIGNALS = CRASH_SIGNALS | {"SIGQUIT"}
_OWN_SIGNALS = frozenset(("SIGTERM", "SIGKILL", "SIGINT", "SIGHUP"))
"""By these launchers end the others."""


@record
class Process:
    """One process of the tree."""

    pid: int
    ppid: int
    argv: tuple[str, ...]
    rank: int | None
    local_rank: int | None
    world_size: int | None
    cwd: str | None
    began: float
    ended: float | None
    code: int | None
    signal: str | None
    raised: bool
    """It told of an exception that ended it."""
    is_python: bool
    peak_rss: int
    memory: tuple[tuple[float, int, str], ...]
    """When, resident bytes, state; the last minute."""
    printed: str = ""
    """What a crash printed into its box: Python's stacks."""
    was_stopped: bool = False
    """It ended by a signal after another one had failed."""
    memory_killed: bool = False
    ended_before: bool = False
    """It ended with 0, and was not there any more when the first one failed."""

    @property
    def label(self) -> str:
        """``rank 3``, ``pid 4711``."""
        return f"rank {self.rank}" if self.rank is not None else f"pid {self.pid}"

    @property
    def failed(self) -> bool:
        """Whether it ended badly."""
        return bool(self.code) or self.signal is not None

    @property
    def how(self) -> str:
        """``was killed by SIGSEGV``."""
        if self.signal is not None:
            return f"was killed by {self.signal}"
        return f"exited with {self.code}" if self.code is not None else "ended"


@dataclass
class RunFacts:
    """A run that is over; lists grow while it is explained."""

    pid: int
    ending: str
    """``it exited with 1``."""
    stopped: bool
    """It did not end by itself: out of time, or a signal from outside."""
    processes: tuple[Process, ...]
    first_failure: Process | None
    quiet: bool
    """Nobody raised, and nobody died of a signal that leaves a core."""
    log_times: dict[str, float] = field(default_factory=dict)
    """By name of a log: when its exception was raised."""
    memory_limit: int | None = None
    """Bytes, where `--memory` has set one."""
    raises: list[Raise] = field(default_factory=list)
    """In the order of time."""
    problems: list[str] = field(default_factory=list)

    @property
    def ranks(self) -> tuple[Process, ...]:
        """The processes that are a rank each; of several with one number the first."""
        found: dict[int, Process] = {}
        for one in self.processes:
            if one.rank is not None:
                found.setdefault(one.rank, one)
        return tuple(found.values())

    @property
    def world_size(self) -> int | None:
        """How many ranks their launcher says that there are."""
        return max((one.world_size or 0 for one in self.ranks), default=0) or None

    @property
    def endings(self) -> tuple[Process, ...]:
        """Those that failed and matter, and ranks that were over before, as they ended."""
        rows = [
            one
            for one in self.processes
            if one.failed
            and (one.rank is not None or one.is_python or one.signal or one.pid == self.pid)
        ]
        # A shell around a rank has its number too, and repeats its signal as a status.
        known = signal.Signals.__members__
        repeated = {
            (one.rank, 128 + known[one.signal])
            for one in rows
            if one.signal and one.signal in known
        }
        rows = [one for one in rows if (one.rank, one.code) not in repeated]
        if any(one.rank is not None for one in rows):
            living = {one.rank for one in self.processes if not one.ended_before}
            rows += [one for one in self.ranks if one.ended_before and one.rank not in living]
        return tuple(sorted(rows, key=lambda one: one.ended or 0.0))

    def lost_before(self, raised: Raise) -> Process | None:
        """Return the child of who raised that a signal ended first, before the exception."""
        children = [
            one
            for one in self.processes
            if one.ppid == raised.pid
            and one.signal
            # A parent may raise before we hear of the end; then it ends the others by SIGTERM.
            and (one.ended or raised.time) < raised.time + (one.signal != "SIGTERM")
        ]
        return min(children, key=lambda one: one.ended or 0.0, default=None)


def facts_of(
    outcome: Outcome, folder: Path, *, memory_kills: int = 0, memory_limit: int | None = None
) -> RunFacts:
    """Return the facts of a run, with what the boxes in its folder say."""
    killed = {one.pid for one in outcome.members if one.signal in (9, 15)}
    first_time = min(
        (
            event.time
            for event in outcome.events
            if event.kind == "timeout"
            or (event.kind in ("raised", "ended") and event.pid not in killed)
        ),
        default=outcome.ended,
    )
    rows = [_process(one, folder, first_time, memory_kills) for one in outcome.members]
    processes = tuple(rows)
    first = _first(outcome, processes)
    ending = f"it exited with {outcome.status}"
    if outcome.signal:
        ending = f"it was killed by {signal_name(outcome.signal)}"
    if outcome.timed_out:
        over = next(one.time for one in outcome.events if one.kind == "timeout")
        ending = f"stopped after {over - outcome.began:.0f} s, as --timeout asks"
    elif outcome.stopped_by is not None:
        ending = f"stopped from outside by {signal_name(outcome.stopped_by)}"
    quiet = not any(one.raised or one.signal in CORE_SIGNALS for one in processes)
    return RunFacts(
        pid=outcome.pid,
        ending=ending,
        stopped=outcome.timed_out or outcome.stopped_by is not None,
        processes=processes,
        first_failure=first,
        quiet=quiet,
        memory_limit=memory_limit,
    )


def _process(one: Member, folder: Path, first_time: float, memory_kills: int) -> Process:
    name = None if one.signal is None else signal_name(one.signal)
    box, printed = box_of(folder, one.pid)[:2] if one.is_python and one.failed else ({}, "")
    rank = one.rank
    if rank is None and box.get("rank", "").isdigit():
        rank = int(box["rank"])
    # A launcher ends the others by these; SIGKILL comes first where the kernel ran out of memory.
    stopped = (
        name in _OWN_SIGNALS and one.ended is not None and one.ended > first_time + 0.001
    ) and not (name == "SIGKILL" and memory_kills)
    return of_row(
        Process,
        vars(one),
        rank=rank,
        code=one.code,
        signal=name,
        peak_rss=one.peak,
        memory=tuple(one.samples),
        printed=printed,
        was_stopped=stopped,
        memory_killed=name == "SIGKILL" and memory_kills > 0,
        # As with a crash, its peers may raise before anybody hears of its end.
        ended_before=one.code == 0 and (one.ended or inf) < first_time + CRASH_LEAD_SECONDS,
    )


def _crashed(one: Process | None) -> bool:
    return one is not None and one.signal in CORE_SIGNALS | {"SIGKILL"} and not one.was_stopped


def _first(outcome: Outcome, processes: tuple[Process, ...]) -> Process | None:
    """Return the process that raised or ended badly before all others, and before time was over."""
    known = {one.pid: one for one in processes}
    over = [one.time for one in outcome.events if one.kind == "timeout"]
    events = [
        one
        for one in outcome.events
        if one.kind in ("raised", "ended") and not any(one.time > at for at in over)
    ]
    # The peers of a process that crashes raise before anybody hears of its end.
    until = events[0].time + CRASH_LEAD_SECONDS if events else 0.0
    crashes = [
        one
        for one in events
        if one.kind == "ended" and one.time < until and _crashed(known.get(one.pid))
    ]
    for event in (*crashes, *events):
        one = known.get(event.pid)
        if one is None:
            continue
        matters = one.rank is not None or one.is_python or one.signal in CORE_SIGNALS | {"SIGKILL"}
        if one.failed and matters and one.signal not in ("SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE"):
            return one
    command = None if over else known.get(outcome.pid)
    return command if command is not None and command.failed else None
