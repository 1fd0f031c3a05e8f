"""Which processes a job has on this node: by pids with all that they started, or by a name."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.readers.launcher import Placement, find_placement
from postmortem.readers.live.status import (
    Status,
    all_pids,
    children,
    descendants,
    read_environment,
    read_status,
)
from postmortem.records import record, replace
from postmortem.text import more

JOB_VARIABLES = (
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_ARRAY_JOB_ID", "TORCHELASTIC_RUN_ID",
    "PBS_JOBID", "PBS_JOBNAME", "LSB_JOBID", "LSB_JOBNAME", "FLUX_JOB_ID", "JOB_ID", "RAY_JOB_ID",
)  # fmt: skip
"""Variables by whose value a job is known, most of them set by its scheduler."""

_ONE_JOB = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "MASTER_PORT")
"""What all ranks of a job have in common."""
_BETWEEN = frozenset(
    "sh bash dash zsh ksh fish tcsh csh busybox srun slurm_script slurmstepd mpirun mpiexec "
    "orterun prterun orted prted hydra_pmi_proxy time timeout nohup numactl setsid sudo su env "
    "xargs tee apptainer singularity starter docker-init tini dumb-init nsys ncu strace gdb "
    "make".split()
)
"""Programs that stand between a launcher and the program that computes."""
_MOST = 1 << 16


@record
class Member:
    """One process of a job."""

    status: Status
    place: Placement
    workers: tuple[int, ...] = ()
    """All that it started, and what they started."""
    child_of_rank: int | None = None
    """It has the variables of a rank only because that rank started it: a worker."""


@record
class Members:
    """Who stands for a rank, or for itself, and who was found but cannot be read."""

    leaders: tuple[Member, ...]
    zombies: tuple[Status, ...] = ()
    problems: tuple[Problem, ...] = ()

    def remarks(self) -> tuple[Problem, ...]:
        """Return what is to be said of processes that have ended."""
        return tuple(
            Problem(
                f"pid {dead.pid}",
                f"is a zombie: it has ended, and its parent, pid {dead.ppid}, has not reaped it",
            )
            for dead in self.zombies[:16]
        )


def chosen_members(pids: Iterable[int], job: str | None, without: Sequence[int]) -> Members:
    """Return the members of the job, or what pids started; raises EvidenceError if none is left."""
    members = members_of(pids) if job is None else members_of_job(job)
    left = tuple(one for one in members.leaders if one.status.pid not in without)
    if left:
        _require_one_job(left)
        return replace(members, leaders=left)
    if not members.zombies:
        raise EvidenceError("hang", "no other process is left to read")
    dead = members.zombies[0]
    what = (
        f"is a zombie: it has ended, and its parent, pid {dead.ppid}, has not reaped it; nothing "
        "of it is left to read"
    )
    hint = "its logs tell why it ended: postmortem logs LOG..."
    raise EvidenceError(f"pid {dead.pid}", what, hint=hint)


def _require_one_job(members: Sequence[Member]) -> None:
    """Raise EvidenceError for ranks of several jobs: those of one do not wait for the others'.

    They are told by what their launchers gave them, where also a rank is there twice, or not all
    know of as many ranks.
    """
    jobs: dict[tuple[str | None, ...], list[Member]] = {}
    for one in members:
        if one.place.rank is not None:
            env = read_environment(one.status.pid) or {}
            jobs.setdefault(tuple(map(env.get, _ONE_JOB)), []).append(one)
    ranks = [one.place.rank for rows in jobs.values() for one in rows]
    sizes = {one.place.world_size for rows in jobs.values() for one in rows}
    if len(jobs) < 2 or (len(set(ranks)) == len(ranks) and len(sizes) == 1):
        return
    pids = [" ".join(str(one.status.pid) for one in rows) for rows in jobs.values()]
    what = f"these are ranks of {len(jobs)} jobs, which do not wait for each other"
    raise EvidenceError("hang", what, hint=f"name one job: postmortem hang {' | '.join(pids)}")


def members_of(pids: Iterable[int]) -> Members:
    """Return the ranks among processes and all that they started; raises EvidenceError if none."""
    problems, tops = [], []
    asked = list(dict.fromkeys(pids))
    for pid in asked:
        status = read_status(pid)
        if status is None:
            remedy = "list what runs now: pgrep -af python"
            problems.append(Problem(f"pid {pid}", "there is no such process (any more)", remedy))
        elif status.is_kernel_thread:
            problems.append(Problem(f"pid {pid}", f"is a thread of the kernel ({status.command})"))
        else:
            tops.append(status)
    if not tops:
        first = problems[0] if problems else Problem("hang", "no process was named")
        what = first.what + more(len(problems) - 1, " (and {} more)")
        raise EvidenceError(first.where, what, hint=first.remedy)
    found = _leaders(tops)
    return Members(found[0], found[1], tuple(problems))


def members_of_job(name: str) -> Members:
    """Return the ranks of a job; raises EvidenceError where no process of this node belongs to it.

    The name is that of its scheduler (SLURM's job id or name, also PBS, LSF, Flux), torchrun's
    ``--rdzv-id``, or else a part of a command line.
    """
    mine = set(_ancestors(os.getpid()))
    rows = [row for pid in all_pids() if pid not in mine and (row := read_status(pid)) is not None]
    by_variable, by_command, hidden = [], [], 0
    for row in rows:
        if row.is_kernel_thread:
            continue
        env = read_environment(row.pid)
        hidden += env is None and row.uid != os.geteuid()
        if env is not None and any(_is_named(env.get(key), name) for key in JOB_VARIABLES):
            by_variable.append(row)
        elif name in " ".join(row.argv):
            by_command.append(row)
    found = by_variable or by_command
    if not found:
        words = ", ".join(JOB_VARIABLES[:6])
        what = f"no process of this node belongs to it (by {words} …, or by its command line)"
        if hidden:
            what += f"; the environment of {hidden} processes of other users could not be read"
        hint = "name the processes: postmortem hang $(pgrep -f train.py)" + (
            "; or ask as root" if hidden else ""
        )
        raise EvidenceError(f"job {name!r}", what, hint=hint)
    known = {row.pid for row in found}
    tops = [row for row in found if row.ppid not in known]
    leaders, zombies = _leaders(tops[:_MOST])
    return Members(leaders, zombies)


def _is_named(value: str | None, name: str) -> bool:
    # PBS and others add the server to the number: 4711.pbs01
    return value is not None and (
        value == name or (name.isdecimal() and value.startswith(f"{name}."))
    )


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 0:
        yield pid
        row = read_status(pid)
        pid = row.ppid if row is not None else 0


def _leaders(tops: Iterable[Status]) -> tuple[tuple[Member, ...], tuple[Status, ...]]:
    below = children()
    leaders: dict[int, Member] = {}
    zombies: dict[int, Status] = {}
    for top in tops:
        rows = {top.pid: top}
        for pid in descendants([top.pid], below):
            row = read_status(pid)
            if row is not None:
                rows[pid] = row
        zombies |= {pid: row for pid, row in rows.items() if row.state in ("Z", "X")}
        alive = {pid: row for pid, row in rows.items() if row.state not in ("Z", "X")}
        places = {pid: find_placement(read_environment(pid) or {}) for pid in alive}
        for pid in _chosen(top.pid, alive, places):
            workers = tuple(one for one in descendants([pid], below) if one in alive)
            of = places[pid].rank if _is_worker(alive[pid], places[pid]) else None
            leaders.setdefault(pid, Member(alive[pid], places[pid], workers, of))
    # A pid that was named, and is also the child of another that was, stands for itself once.
    inner = {pid for one in leaders.values() for pid in one.workers}
    kept = [
        one
        for pid, one in leaders.items()
        if pid not in inner or (one.place.rank is not None and one.child_of_rank is None)
    ]
    # SLURM's batch script and its srun have the variables of a rank, too.
    kept = [one for one in kept if one.status.command not in _BETWEEN] or kept
    return tuple(sorted(kept, key=_order)), tuple(zombies.values())


def _is_worker(row: Status, place: Placement) -> bool:
    """Return whether a rank started it, and no launcher: it inherited the rank's variables."""
    parent = read_status(row.ppid)
    if place.rank is None or parent is None or parent.command in _BETWEEN:
        return False
    return find_placement(read_environment(parent.pid) or {}) == place


def _order(one: Member) -> tuple[int, int]:
    return (one.place.rank if one.place.rank is not None else 1 << 40, one.status.pid)


def _chosen(top: int, rows: Mapping[int, Status], places: Mapping[int, Placement]) -> list[int]:
    """Return who stands for a rank: of each rank the uppermost that is no shell or launcher."""
    ranked = [pid for pid in rows if places[pid].rank is not None]
    # A scheduler's variables are those of the launcher, too; the launcher's own count.
    own = [pid for pid in ranked if places[pid].launcher != "SLURM"]
    ranked = own or ranked
    if not ranked:
        return [_program(top, rows)] if top in rows else []
    members = set(ranked)
    found = []
    for pid in ranked:
        above = rows[pid].ppid
        if above in members and places[above].rank == places[pid].rank:
            continue
        found.append(_program(pid, rows))
    return list(dict.fromkeys(found))


def _program(pid: int, rows: Mapping[int, Status]) -> int:
    """Return the program below shells and their kin, where they started just one."""
    while rows[pid].command in _BETWEEN:
        inner = [row.pid for row in rows.values() if row.ppid == pid]
        if len(inner) != 1:
            break
        pid = inner[0]
    return pid
