"""Jobs that never started, and jobs that somebody stopped."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.blame import Blame, How, Party, StartupFault
from postmortem.diagnose.ranks.deciding.case import Case
from postmortem.diagnose.ranks.wordings import startup_fault
from postmortem.facts.rank_logs import LogFailure
from postmortem.patterns import Pattern

_JOINED = Pattern(r"(\d{1,7})/(\d{1,7}) clients joined")
_COUNTED = Pattern(r"\(world_size=(\d{1,7}), worker_count=(\d{1,7}), timeout=")
"""The same of torch before 2.2, which counts at a barrier."""
_ORDER = list(StartupFault)
_TOO_MANY = {StartupFault.MISSING: StartupFault.TOO_MANY}
_NODE = Pattern(r"srun: error: Node failure on (?P<host>[\w.-]+)")
_STOP = Pattern(
    r"CANCELLED(?: AT| DUE| \*)|DUE TO TIME LIMIT|DUE TO PREEMPTION|Received (?:2|15|1) "
    r"death signal"
    r"|DUE TO NODE FAILURE|^TERM_\w+: job killed|PBS: job killed: "
)


def could_not_start(case: Case) -> Blame | None:
    """Return what the job lacked at its start, and the rank that never came if it is known."""
    failures = [f for s in case.all for f in s.startup]
    if not failures:
        return None
    faults = [(fault, f) for f in failures if (fault := startup_fault(_known(f))) is not None]
    counts = [count for f in failures if (count := _joined(f)) is not None]
    if any(came > world for came, world in counts):  # of two jobs, or of a start anew
        faults = [(_TOO_MANY.get(fault, fault), f) for fault, f in faults]
    named = _remarked(case)
    if not faults and named is None:
        return None
    if any(s.about_peers for s in case.ranks) and not faults:
        return None
    if counts:  # so the store was there, and counted
        faults = [item for item in faults if item[0] is not StartupFault.UNREACHABLE] or faults
    fault, failure = min(faults, key=lambda item: _ORDER.index(item[0])) if faults else (None, None)
    evidence = [
        (f"{f.file}:{f.line}", clip(f.said.words, 300)) for f in _different([f for _, f in faults])
    ]
    if named is not None and (fault is None or _ORDER.index(named[0]) < _ORDER.index(fault)):
        fault = named[0]
        evidence.insert(0, named[1])
    assert fault is not None
    detail = evidence[0][1] if failure is None or (named and fault is named[0]) else _words(failure)
    if fault is StartupFault.MISSING:
        missing = _absent(case, counts)
        if missing:
            return Blame(
                How.MISSING, missing, fault=fault, evidence=tuple(evidence[:6]), detail=detail
            )
    return Blame(How.STARTUP, fault=fault, evidence=tuple(evidence[:6]), detail=detail)


def _words(failure: LogFailure) -> str:
    said = [failure.said, *failure.causes]
    return " | ".join(f"{s.exception}: {s.message}" for s in said)


def _known(failure: LogFailure) -> Iterator[str]:
    for said in (failure.said, *failure.causes):
        yield from said.known


def _different(failures: list[LogFailure]) -> list[LogFailure]:
    seen: dict[str, LogFailure] = {}
    for failure in failures:
        seen.setdefault(failure.said.words, failure)
    return list(seen.values())


def _remarked(case: Case) -> tuple[StartupFault, tuple[str, str]] | None:
    for remark in case.logs.remarks:
        fault = startup_fault(remark.known)
        if fault is not None:
            return fault, (f"{remark.file}:{remark.line}", clip(remark.text, 300))
    return None


def _joined(failure: LogFailure) -> tuple[int, int] | None:
    """Return how many came, and of how many, where a failure tells."""
    words = _words(failure)
    if joined := _JOINED.search(words):
        return int(joined[1]), int(joined[2])
    counted = _COUNTED.search(words)
    return (int(counted[2]), int(counted[1])) if counted else None


def _absent(case: Case, counts: list[tuple[int, int]]) -> tuple[Party, ...]:
    """Return the ranks that never came, where the others are all there and say how many came."""
    if not counts:
        return ()
    came, world = counts[0]
    here = {rank for rank in case.known if rank < world}
    if len(here) != came or not 0 < world - came <= 64:
        return ()
    absent = [rank for rank in range(world) if rank not in here]
    return tuple(Party(str(rank), rank, None, "it never joined") for rank in absent)


def node_failed(case: Case) -> Blame | None:
    """Return the host that Slurm says failed, and the ranks that were there."""
    told = [(r, found) for r in case.logs.remarks if (found := _NODE.search(r.text))]
    if not told:
        return None
    host = told[0][1]["host"]
    there = [s for s in case.ranks if s.writer.host == host]
    if not there and all(s.exit.host for s in case.ranks if s.exit is not None):
        # srun tells how the tasks of the other hosts ended, with their hosts
        there = [s for s in case.ranks if s.exit is None]
        there = there if len(there) < len(case.ranks) else []
    first = tuple(s.party("its host failed") for s in there)
    evidence = tuple((f"{r.file}:{r.line}", clip(r.text, 300)) for r, _ in told[:3])
    return Blame(How.NODE, first, evidence=evidence, detail=host, whole_host=host)


def stopped_from_outside(case: Case) -> Blame | None:
    """Return that the job was stopped, where nothing failed before."""
    told = [r for r in case.logs.remarks if _STOP.search(r.text)]
    stopped = [s for s in case.all if s.stopped]
    others = [s for s in case.all if s.about_peers or s.startup]
    if others and not told:
        return None
    if not told and not stopped:
        return None
    if told:
        told.sort(key=lambda remark: "DUE TO" not in remark.text)  # what says why, first
        evidence = tuple((f"{r.file}:{r.line}", clip(r.text, 300)) for r in told[:3])
    else:
        evidence = tuple(
            (f"{f.file}:{f.line}", clip(f.said.words, 300))
            for s in stopped[:3]
            for f in s.stopped[:1]
        )
    return Blame(How.STOPPED, evidence=evidence, detail=evidence[0][1])
