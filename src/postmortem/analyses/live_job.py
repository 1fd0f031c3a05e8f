"""What the processes of a job do: looked at twice, then closer at those that matter."""

from collections.abc import Callable

from postmortem.diagnose.hang.holding import worth_following
from postmortem.diagnose.hang.hot_path import busy_ranks, hot_paths
from postmortem.diagnose.hang.pace import paces
from postmortem.diagnose.stacks.classes import classes
from postmortem.errors import EvidenceError
from postmortem.facts.live import LiveJob
from postmortem.facts.source import Problem
from postmortem.readers.live.job_processes import chosen_members
from postmortem.readers.live.nccl_ras import ask_ras
from postmortem.readers.live.snapshot import ReadOptions, with_calls
from postmortem.readers.live.watch import (
    Samples,
    look_often,
    missing_local_ranks,
    read_workers,
    watch,
)
from postmortem.records import record, replace


@record
class HangOptions:
    """What the user asked for."""

    pids: tuple[int, ...] = ()
    job: str | None = None
    without: tuple[int, ...] = ()
    """Processes that are left out, whoever else belongs to the job."""
    reading: ReadOptions = ReadOptions()
    samples: int = 2
    gap_seconds: float = 1.0
    within_seconds: float | None = None
    """Where samples take long, fewer are taken: after so much time one more."""
    looks: int = 12
    """At each process that computes and waits for no other one; 0 for none."""
    verbose: bool = False
    redact: bool = True


def read_job(
    options: HangOptions, progress: Callable[[str], None] | None = None
) -> tuple[LiveJob, Samples]:
    """Return what live processes do; after it they are no longer needed. Raises EvidenceError."""
    members = chosen_members(options.pids, options.job, options.without)
    samples = watch(
        members,
        options.reading,
        samples=options.samples,
        gap_seconds=options.gap_seconds,
        within_seconds=options.within_seconds,
        progress=progress,
    ).without_failed()
    if not samples.ranks:
        first = samples.problems[0] if samples.problems else Problem("hang", "nothing was read")
        raise EvidenceError(first.where, first.what, hint=first.remedy)
    found = classes(samples.stacks)
    alone, motions = worth_following(samples.ranks, found), samples.motions()
    busy = busy_ranks(samples.ranks, alone, motions)
    looks = look_often(samples, busy, options.reading, looks=options.looks)
    samples = read_workers(samples, alone, options.reading)
    problems = [*samples.problems, *members.remarks()]
    rows = {one.pid: one for one in (*samples.ranks, *samples.workers)}
    rows = with_calls(rows, problems)
    job = LiveJob(
        processes=tuple(rows.values()),
        stacks=found,
        samples=samples.taken,
        gap_seconds=options.gap_seconds,
        motions=motions,
        paces=paces(samples.stacks, motions),
        hot_paths=hot_paths(looks),
        missing_local_ranks=missing_local_ranks(samples.ranks),
        zombies=tuple(one.pid for one in members.zombies),
        nccl_ras=ask_ras(tuple(rows.values())),
    )
    return job, replace(samples, problems=tuple(dict.fromkeys(problems)))
