"""The watch itself: who belongs to the tree, one look after another, and what it costs."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable

from postmortem.errors import EvidenceError
from postmortem.facts.watch import MIB, Ceiling, Sample, Watched, Watching
from postmortem.facts.watch_format import OF_A_CEILING
from postmortem.readers.live.job_processes import Members, members_of, members_of_job
from postmortem.readers.live.status import descendants, read_status
from postmortem.watch.gpu import Gpus
from postmortem.watch.growers import Growers
from postmortem.watch.limits import limits_of
from postmortem.watch.ring import Ring
from postmortem.watch.sampler import Process

_TREE_SECONDS = 5.0
"""How often the children of main threads are asked for, which is cheap; all processes of the system
are gone through less often, for children of other threads."""
_DEAR = 500.0
"""What takes a second is done again no sooner than after so many: 0.2 % of one core."""
_BUDGET = 0.004
"""Share of one core that looks may take; a round that costs more makes the next ones rarer."""
_KEPT = 3_600
"""Samples of a process that are kept; then every second one goes, so that all time is covered."""
_MOST = 4_096


class Watch:
    """Processes that are watched, by pids with all that they started, or by the name of a job."""

    def __init__(
        self,
        pids: Iterable[int],
        job: str | None,
        interval: float,
        ring: str | None,
        ring_bytes: int,
        *,
        lines: bool,
    ) -> None:
        """Raises EvidenceError where there is nobody to watch, OSError for the ring."""
        self._pids, self._job = tuple(pids), job
        members = self._members()
        if not members.leaders:
            raise EvidenceError("watch", "these processes have ended already")
        self.interval = interval
        self.problems = list(members.problems)
        self.left_out: set[int] = set()
        self.cost = 0.0
        """Processor seconds that a look takes, smoothed."""
        self.began = time.time()
        self._live: dict[int, Process] = {}
        self._samples: dict[int, list[Sample]] = {}
        self._who: dict[int, tuple[str, int | None]] = {}
        self._ended: set[int] = set()
        self.gpus = Gpus()
        self._growers = Growers() if lines else None
        self._limits = limits_of(members.leaders[0].status.pid)
        self._used: list[list[tuple[float, int]]] = [[] for _ in self._limits]
        self._ring = Ring(ring, ring_bytes, interval) if ring else None
        self._turn = -1
        self._next_tree = self._next_scan = 0.0
        self._round = 0
        self._add(members)

    def _members(self) -> Members:
        return members_of(self._pids) if self._job is None else members_of_job(self._job)

    def _add(self, members: Members) -> None:
        for one in members.leaders:
            self._open(one.status.pid, one.place.rank)
            for pid in one.workers:
                self._open(pid, None)
        for pid in self._pids:
            self._open(pid, None)  # the launcher itself

    def _open(self, pid: int, rank: int | None) -> None:
        if pid in self._live or pid == os.getpid():
            return
        if len(self._live) >= _MOST:
            self.left_out.add(pid)
            return
        status = read_status(pid)
        if status is None or status.is_kernel_thread or status.state in ("Z", "X"):
            return
        name = " ".join(status.argv) or status.command
        try:
            self._live[pid] = Process(pid, name[:200], rank)
        except OSError:
            return
        self._who[pid] = (name[:200], rank)
        self._ended.discard(pid)

    def look(self) -> bool:
        """Look once at all of them; return whether any is left."""
        if time.monotonic() >= self._next_tree:
            self._grow_tree()  # as the stacks below, it sees to its own cost
        began = time.process_time()
        at = time.time()
        self._round += 1
        if self.gpus.why_not is None and self._round % 5 == 1:
            held = self.gpus.by_process()
            for one in self._live.values():
                one.gpu = held.get(one.pid, 0)
        grown: list[Process] = []
        live = list(self._live.values())
        for number, one in enumerate(live):
            if (number + self._round) % 5 == 0:
                one.count_descriptors()
            if (number + self._round) % len(live) == 0:
                one.measure_pss()  # one process a round
            sample = one.look(at)
            if sample is None:
                one.close()
                del self._live[one.pid]
                self._ended.add(one.pid)
                if self._ring is not None:
                    self._ring.gone(at, one.pid)
                continue
            if self._keep(one, sample):
                grown.append(one)
        self._look_at_limits(at)
        cost = time.process_time() - began
        self.cost = min(self.cost * 0.8 + cost * 0.2, 4 * cost) if self._round > 2 else cost
        if self._growers is not None:
            for one in grown:
                self._growers.look(one.pid)
        return bool(self._live)

    def pause(self) -> float:
        """Return the seconds until the next look: longer than was asked where a look is dear."""
        return max(self.interval, self.cost / _BUDGET)

    def _keep(self, one: Process, sample: Sample) -> bool:
        """Keep a sample; return whether the process has grown since the last one."""
        rows = self._samples.setdefault(one.pid, [])
        before = rows[-1] if rows else None
        rows.append(sample)
        if len(rows) > _KEPT:
            del rows[: len(rows) // 2 : 2]
        if self._ring is not None:
            if self._ring.turn() != self._turn:
                self._turn = self._ring.turn()
                self._name_all(sample.time)
            self._ring.sample(one.pid, sample)
        return before is not None and sample.held > before.held + MIB

    def _name_all(self, at: float) -> None:
        assert self._ring is not None
        for pid in self._live:
            name, rank = self._who[pid]
            self._ring.name(at, pid, rank, name)
        for index, limit in enumerate(self._limits):
            self._ring.name(at, OF_A_CEILING + index, None, limit.name)

    def _grow_tree(self) -> None:
        began, before = time.process_time(), set(self._live)
        now = time.monotonic()
        self._next_tree = now + _TREE_SECONDS
        if now < self._next_scan:
            for one in list(self._live.values()):
                for pid in one.children():
                    self._open(pid, None)
        elif self._job is not None:
            with contextlib.suppress(EvidenceError):  # all of them have ended
                self._add(members_of_job(self._job))
        else:
            for pid in descendants([*before, *self._pids]):
                if pid not in self._live:
                    self._open(pid, None)
        if now >= self._next_scan:
            spent = time.process_time() - began
            self._next_scan = now + max(2 * _TREE_SECONDS, spent * _DEAR)
        if self._ring is not None and set(self._live) - before:
            self._turn = -1

    def _look_at_limits(self, at: float) -> None:
        for index, (limit, rows) in enumerate(zip(self._limits, self._used, strict=True)):
            used = limit.used()
            if used is None:
                continue
            rows.append((at, used))
            if len(rows) > _KEPT:
                del rows[: len(rows) // 2 : 2]
            if self._ring is not None:
                self._ring.ceiling(at, index, limit.limit, used)

    def latest(self) -> list[tuple[str, Sample]]:
        """Return the last look at those that live."""
        return [
            (f"pid {pid} ({self._who[pid][0][:60]})", self._samples[pid][-1])
            for pid in self._live
            if pid in self._samples
        ]

    def seen(self) -> Watching:
        """Return what was seen so far."""
        growers = self._growers
        processes = tuple(
            Watched(
                pid,
                *self._who[pid],
                tuple(rows),
                pid in self._ended,
                growers.of(pid) if growers else (),
                growers.looks.get(pid, 0) if growers else 0,
            )
            for pid, rows in self._samples.items()
        )
        ceilings = tuple(
            Ceiling(one.name, one.limit, tuple(used))
            for one, used in zip(self._limits, self._used, strict=True)
            if used
        )
        seconds = time.time() - self.began
        return Watching(processes, ceilings, seconds, self.interval, self._pids)

    def close(self) -> None:
        """Let go of all; the ring says that the watch ended by itself."""
        for one in self._live.values():
            one.close()
        if self._ring is not None:
            self._ring.close()


def run(watch: Watch, seconds: float | None, shown: Callable[[Watch], None]) -> None:
    """Look until nobody is left, the time is over, or Ctrl-C."""
    end = None if seconds is None else time.monotonic() + seconds
    due = time.monotonic()
    while watch.look():
        shown(watch)
        due = max(due + watch.pause(), time.monotonic())
        last = end is not None and due >= end
        time.sleep(max(0.0, (end if end is not None and last else due) - time.monotonic()))
        if last:
            watch.look()
            return
