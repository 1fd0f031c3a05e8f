"""Jobs of tensor, pipeline, data and expert parallel ranks that jam, as their dumps show them.

Every rank has a program of calls. Its host makes them ahead of its device, which runs them one by
one and waits where a partner is missing; asynchronous calls are waited for later. A fault strikes
at a random moment, and the job goes on until nothing moves any more.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

START_NS = 1_763_000_000_000_000_000
ODD = ("operation", "size", "dtype", "skipped", "swapped")
"""Faults of the program: the rank calls something else."""
KINDS = (*ODD, "stuck", "crashed", "device", "late")


@dataclass
class Layout:
    """The ranks of a job on a grid, and their groups."""

    tp: int
    pp: int
    dp: int
    ep: int = 1
    groups: list[tuple[str, list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.size = self.tp * self.pp * self.dp
        self.of: dict[int, dict[str, int]] = defaultdict(dict)
        spots = [(t, p, d) for p in range(self.pp) for d in range(self.dp) for t in range(self.tp)]
        self._split("default_pg", spots, lambda _t, _p, _d: 0)
        self._split("TP", spots, lambda _t, p, d: (p, d))
        self._split("DP", spots, lambda t, p, _d: (t, p))
        self._split("PP", spots, lambda t, _p, d: (t, d))
        if self.ep > 1:
            self._split("EP", spots, lambda t, p, d: (t, p, d // self.ep))

    def rank(self, t: int, p: int, d: int) -> int:
        return (p * self.dp + d) * self.tp + t

    def stage(self, rank: int) -> int:
        return rank // (self.tp * self.dp)

    def neighbour(self, rank: int, by: int) -> int | None:
        """The rank at the same place of another stage of the pipeline."""
        stage = self.stage(rank) + by
        return rank + by * self.tp * self.dp if 0 <= stage < self.pp else None

    def _split(self, words: str, spots: Iterable[tuple[int, int, int]], key: Any) -> None:
        parts: dict[object, list[int]] = defaultdict(list)
        for t, p, d in spots:
            parts[key(t, p, d)].append(self.rank(t, p, d))
        for members in parts.values():
            for rank in members:
                self.of[rank][words] = len(self.groups)
            self.groups.append((words, members))


@dataclass
class Do:
    """One step of a program: a call, or a wait of the host (`sync`) or the device (`join`)."""

    what: str
    group: int = -1
    operation: str = ""
    sizes: tuple[int, int] = (0, 0)
    dtype: str = "BFloat16"
    peer: int = -1


@dataclass
class Made:
    """A call that a host has made."""

    do: Do
    number: int
    at: int
    created: int
    begun: bool = False
    ended: bool = False


def program(layout: Layout, rank: int, steps: int = 2, micro: int = 3) -> list[Do]:
    """All forward passes, all backward passes, the gradients, the norm over all ranks."""
    of = layout.of[rank]
    tp, tp_size = of["TP"], layout.tp
    rows: list[Do] = []

    def layer() -> None:
        rows.append(Do("call", tp, "_all_gather_base", (256, 256 * tp_size)))
        if "EP" in of:
            rows.append(Do("call", of["EP"], "all_to_all", (100 + rank, 200)))
        rows.append(Do("call", tp, "_reduce_scatter_base", (256 * tp_size, 256)))

    def over(come: int | None, go: int | None) -> None:
        if come is not None:
            rows.append(Do("recv", of["PP"], "recv", (256, 256), peer=come))
        layer()
        layer()
        if go is not None:
            rows.append(Do("send", of["PP"], "send", (256, 256), peer=go))

    back, ahead = layout.neighbour(rank, -1), layout.neighbour(rank, 1)
    for _ in range(steps):
        for _ in range(micro):
            over(back, ahead)
        for at in range(micro):
            over(ahead, back)
            if at == micro - 1:
                rows.append(Do("async", of["DP"], "_reduce_scatter_base", (4096, 512)))
        rows.append(Do("join"))
        rows.append(Do("call", of["default_pg"], "all_reduce", (1, 1), "Float"))
        rows.append(Do("sync"))
        rows.append(Do("call", of["DP"], "_all_gather_base", (512, 4096)))
    return rows


class Job:
    """A run of all programs; `truth` has who was struck, `named` who must be found."""

    def __init__(self, layout: Layout, seed: int, *, ahead: int = 12) -> None:
        self.layout, self.chance, self.ahead = layout, random.Random(seed), ahead
        ranks = range(layout.size)
        self.programs = [program(layout, rank) for rank in ranks]
        self.host = [0 for _ in ranks]
        self.device = [0 for _ in ranks]
        self.made: list[dict[int, Made]] = [{} for _ in ranks]
        self.numbers: list[dict[tuple[int, bool], int]] = [defaultdict(int) for _ in ranks]
        self.there: dict[tuple[int, int], dict[int, Made]] = defaultdict(dict)
        self.sent: dict[tuple[int, int], list[Made]] = defaultdict(list)
        self.wanted: dict[tuple[int, int], list[Made]] = defaultdict(list)
        self.still_host: set[int] = set()
        self.still_device: set[int] = set()
        self.noted: dict[int, int] = {}
        self.alter: dict[int, str] = {}
        self.broken: set[int] = set()
        self.frozen = False
        self.clock = 0.0
        self.truth: dict[int, str] = {}
        self.altered: set[int] = set()

    def run(self, rounds: int | None = None) -> None:
        """Let all ranks go on, until nothing moves or for some rounds."""
        order = list(range(self.layout.size))
        while rounds is None or rounds > 0:
            rounds = None if rounds is None else rounds - 1
            self.clock += 0.01
            self.chance.shuffle(order)
            moved = [self._host(rank) | self._device(rank) for rank in order]
            if not any(moved):
                return

    def strike(self, faults: Mapping[int, str]) -> None:
        """Let faults begin now."""
        for rank, kind in faults.items():
            self.truth[rank] = kind
            if kind in ODD:
                self.alter[rank] = kind
                continue
            if kind != "device" or self.chance.random() < 0.5:
                self.still_host.add(rank)
            if kind in ("crashed", "device"):
                self.still_device.add(rank)
            if kind == "device":
                self.noted[rank] = self.device[rank] - self.chance.randint(6, 20)

    def settle(self) -> None:
        """Go on to the end; those who are late come five minutes after nothing moves."""
        self.run()
        late = {rank for rank, kind in self.truth.items() if kind == "late"}
        if late:
            self.frozen, self.clock = True, self.clock + 300
            self.still_host -= late
            self.run()

    def _host(self, rank: int) -> bool:
        if rank in self.still_host:
            return False
        rows, moved = self.programs[rank], False
        for _ in range(self.chance.randint(1, 3)):
            at = self.host[rank]
            if at >= len(rows) or at - self.device[rank] > self.ahead:
                break
            if rows[at].what == "sync" and self.device[rank] < at:
                break
            if rows[at].what not in ("sync", "join") and not self._make(rank, at):
                continue
            self.host[rank], moved = at + 1, True
        return moved

    def _make(self, rank: int, at: int) -> bool:
        rows = self.programs[rank]
        do = rows[at]
        how = self.alter.get(rank)
        if how is not None and do.what == "call" and "all_to_all" not in do.operation:
            del self.alter[rank]
            self.altered.add(rank)
            if how == "skipped":
                del rows[at]
                return False
            if how == "swapped":
                others = (i for i in range(at + 1, len(rows)) if rows[i].what == "call")
                other = next((i for i in others if rows[i].group != do.group), at)
                rows[at], rows[other] = rows[other], rows[at]
                return False
            changes = {
                "operation": {"operation": "broadcast"},
                "size": {"sizes": (do.sizes[0] + 8, do.sizes[1] + 8)},
                "dtype": {"dtype": "Float" if do.dtype != "Float" else "Half"},
            }[how]
            do = rows[at] = Do(**{**vars(do), **changes})
        pair = do.what in ("send", "recv")
        self.numbers[rank][do.group, pair] += 1
        number = self.numbers[rank][do.group, pair]
        created = START_NS + int((self.clock + self.chance.uniform(0, 0.004)) * 1e9)
        self.made[rank][at] = Made(do, number, at, created)
        return True

    def _device(self, rank: int) -> bool:
        moved = False
        while self.device[rank] < self.host[rank] and rank not in self.still_device:
            do = self.programs[rank][self.device[rank]]
            if do.what == "join" and any(
                not m.ended
                for at, m in self.made[rank].items()
                if m.do.what == "async" and at < self.device[rank]
            ):
                return moved
            made = self.made[rank].get(self.device[rank])
            if made is not None and not made.begun:
                made.begun = moved = True
                self._begin(rank, made)
            if made is not None and not made.ended and do.what not in ("send", "async"):
                return moved
            self.device[rank] += 1
            moved = True
        return moved

    def _begin(self, rank: int, made: Made) -> None:
        do = made.do
        if do.what in ("send", "recv"):
            ends = (rank, do.peer) if do.what == "send" else (do.peer, rank)
            (self.sent if do.what == "send" else self.wanted)[ends].append(made)
            while self.sent[ends] and self.wanted[ends] and not self.frozen:
                self.sent[ends].pop(0).ended = self.wanted[ends].pop(0).ended = True
            return
        there = self.there[do.group, made.number]
        there[rank] = made
        whole = len(there) == len(self.layout.groups[do.group][1])
        own = "all_to_all" in do.operation
        alike = {(m.do.operation, m.do.dtype, None if own else m.do.sizes) for m in there.values()}
        if whole and len(alike) == 1 and not self.frozen and do.group not in self.broken:
            for one in there.values():
                one.ended = True

    @property
    def jammed(self) -> bool:
        return any(not m.ended for rows in self.made for m in rows.values())

    def allowed(self) -> set[int]:
        """Who may be named: all whose fault has come to anything."""
        return {r for r, kind in self.truth.items() if kind not in ODD or r in self.altered}

    def needed(self) -> set[int]:
        """Who was struck, and is missing where somebody waits: the dumps show it."""
        missing: set[int] = set()
        for rows in self.made:
            for made in rows.values():
                if made.ended or not made.begun:
                    continue
                if made.do.what == "recv":
                    missing.add(made.do.peer)
                elif made.do.what != "send":
                    there = self.there[made.do.group, made.number]
                    missing.update(set(self.layout.groups[made.do.group][1]) - there.keys())
        return self.allowed() & missing

    def dumps(self, *, lost: Iterable[int] = (), active: bool = True) -> dict[int, dict[str, Any]]:
        """Return the dumps of all ranks that live; `active` ones have unfinished calls only."""
        gone = {rank for rank, kind in self.truth.items() if kind == "crashed"} | set(lost)
        ranks = (rank for rank in range(self.layout.size) if rank not in gone)
        return {rank: self._dump(rank, active=active) for rank in ranks}

    def _dump(self, rank: int, *, active: bool) -> dict[str, Any]:
        mine = list(self.layout.of[rank].values())
        limit = self.noted.get(rank)
        entries, ended = [], dict.fromkeys(mine, 0)
        for at, made in sorted(self.made[rank].items()):
            do = made.do
            done = made.ended and (limit is None or at < limit)
            if done:
                ended[do.group] = max(ended[do.group], made.number)
                if active:
                    continue
            pair = do.what in ("send", "recv")
            members = self.layout.groups[do.group][1]
            name = do.operation
            if pair:
                arrow = "->" if do.what == "send" else "<-"
                name = f"{name} {members.index(rank)}{arrow}{members.index(do.peer)}"
            entries.append(
                {
                    "pg_id": mine.index(do.group),
                    "process_group": (str(do.group), self.layout.groups[do.group][0]),
                    "collective_seq_id": 0 if pair else made.number,
                    "p2p_seq_id": made.number if pair else 0,
                    "profiling_name": f"nccl:{name}",
                    "time_created_ns": made.created,
                    "input_sizes": [[do.sizes[0]]],
                    "output_sizes": [[do.sizes[1]]],
                    "input_dtypes": [do.dtype],
                    "state": "completed" if done else "scheduled",
                    "retired": done,
                    "is_p2p": pair,
                    "timeout_ms": 600_000,
                }
            )
        config = {
            str(g): {"desc": self.layout.groups[g][0], "ranks": str(self.layout.groups[g][1])}
            for g in mine
        }
        pairs = {g for g, pair in self.numbers[rank] if pair}
        status = {
            str(i): {
                "last_enqueued_collective": self.numbers[rank][g, g in pairs],
                "last_started_collective": -1,
                "last_completed_collective": ended[g],
            }
            for i, g in enumerate(mine)
        }
        return {"version": "2.10", "pg_config": config, "pg_status": status, "entries": entries}


def jammed(layout: Layout, faults: Mapping[int, str], seed: int, **options: Any) -> Job:
    """Return a job that these faults struck, when nothing moves any more."""
    job = Job(layout, seed, **options)
    job.run(job.chance.randint(12, 60))
    job.strike(faults)
    job.settle()
    return job
