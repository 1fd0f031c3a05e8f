"""Jobs that never started."""

from collections.abc import Iterable, Iterator

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.causes import (
    CouldNotStart,
    NeverJoined,
    ProcessEnded,
    UnnamedProcessEnded,
)
from postmortem.diagnose.ranks.deciding.case import Case, cited_line
from postmortem.diagnose.ranks.deciding.ends import unnamed_end
from postmortem.diagnose.ranks.wordings import startup_fault
from postmortem.facts.rank_logs import LogFailure, Remark
from postmortem.facts.signature import Match

_ORDER = list(StartupFault)
_OF_ABSENT = (StartupFault.MISSING, StartupFault.RENDEZVOUS)
_TOO_MANY = {StartupFault.MISSING: StartupFault.TOO_MANY}
_PLACES = ("store-eaddrinuse", "store-bind", "store-dns", "store-client-timeout")
"""Messages that name the port or the host of the store."""
_HOSTS = ("store-dns", "store-client-timeout", "error-mesh", "nccl-peer-unreachable")


def could_not_start(case: Case) -> Attribution | None:
    """Return what the job lacked at its start, and the rank that never came if it is known."""
    failures = [f for s in case.all for f in s.startup]
    still, bare = _still_tries(case), said_bare(case)
    no_start = bare or any(r.match(_NO_START) for r in case.logs.remarks)
    if not failures and not still and not no_start:
        return None
    faults = [(fault, f) for f in failures if (fault := startup_fault(_matches(f))) is not None]
    waits = [m for r in case.logs.remarks if still and (m := r.match("store-waits"))]
    told = [*(m for f in failures for m in _matches(f) if m.id in _COUNTS), *waits[-1:]]
    told += [m for r in bare for m in r.matches if m.id in _COUNTS]
    counts = [(int(m["joined"]), int(m["wanted"])) for m in told]
    if any(came > world for came, world in counts):  # of two jobs, or of a start anew
        faults = [(_TOO_MANY.get(fault, fault), f) for fault, f in faults]
    named = _remarked(case.logs.remarks, (*_OF_LINES, "store-waits") if still else _OF_LINES)
    named = named or _remarked(bare, _BARE)
    if not faults and named is None:
        return None
    if any(s.about_peers for s in case.ranks) and not faults:
        return None
    if counts:  # so the store was there, and counted
        faults = [item for item in faults if item[0] is not StartupFault.UNREACHABLE] or faults
    fault, failure = min(faults, key=lambda item: _ORDER.index(item[0])) if faults else (None, None)
    evidence = [(f.where, clip(f.said.words, 300)) for f in _different([f for _, f in faults])]
    if named is not None and (fault is None or _ORDER.index(named[0]) < _ORDER.index(fault)):
        fault = named[0]
        evidence.insert(0, named[1])
    assert fault is not None
    said = evidence[0][1] if failure is None or (named and fault is named[0]) else _words(failure)
    if failure is not None and fault in _OF_ABSENT:
        blame = unnamed_end(case)  # of who was to come, where it ended before others missed it
        end = blame.cause.end if blame and isinstance(blame.cause, UnnamedProcessEnded) else None
        if end is not None and end.file == failure.file and end.line < failure.begin_line:
            return blame
    pods = [end for end in case.logs.exits if end.unplaced] if fault in _OF_ABSENT else []
    if pods:
        waiting = ((pod.where, f"{pod.witness} says: {pod.words}") for pod in pods[:3])
        return Attribution(ProcessEnded(pods[0]), evidence=(*waiting, *evidence[:3]))
    if fault is StartupFault.MISSING:
        here = {*case.known, *(int(match["rank"]) for match in waits)}
        missing = _absent(here, counts) or _named_absent(case) or _too_late(case, counts)
        if missing:
            return Attribution(NeverJoined(said), missing, evidence=tuple(evidence[:6]))
    matches = [m for _, f in faults for m in _matches(f)] + (list(named[2]) if named else [])
    cause = CouldNotStart(
        fault,
        said,
        known=tuple(dict.fromkeys(match.id for match in matches)),
        port=_captured(matches, "port", _PLACES),
        host=_captured(matches, "host", _HOSTS),
        interface=_captured(matches, "interface", ("gloo-ifname", "error-interface")),
    )
    return Attribution(cause, evidence=tuple(evidence[:6]))


def not_started(case: Case) -> tuple[Attribution, Remark] | None:
    """Return what a launcher says that it could not start, and where it says so last.

    What worked below that is of another run, or did not need it.
    """
    told = [(r, m) for r in case.logs.remarks if (m := r.match(*CANNOT_START)) is not None]
    if not told:
        return None
    (remark, said), last = told[0], told[-1][0]
    if any(one.last.file == last.file and one.worked > last.line for one in case.logs.last_lines):
        return None
    cause = CouldNotStart(
        startup_fault([said]) or StartupFault.PROGRAM,
        remark.text,
        (said.id,),
        host=said["host"] or said["node"] or said["hosts"] or None,
        program=said["program"],
        why=said["why"],
    )
    return Attribution(cause, evidence=(cited_line(remark),)), last


def said_bare(case: Case) -> list[Remark]:
    """Return the last lines that say, without a traceback, that somebody never came."""
    last = {line.where for one in case.logs.last_lines for line in one.errors}
    return [r for r in case.logs.remarks if r.where in last and r.match(*_BARE) is not None]


def _still_tries(case: Case) -> bool:
    """Whether the last that all wrote is what is tried, or waited for, on and on."""
    told = {r.where for r in case.logs.remarks if r.match(*_TRIES) is not None}
    ends = {one.last.where for one in case.logs.last_lines}
    return bool(ends) and ends <= told


def _words(failure: LogFailure) -> str:
    said = [failure.said, *failure.causes]
    return " | ".join(f"{s.exception}: {s.message}" for s in said)


def _matches(failure: LogFailure) -> Iterator[Match]:
    for said in (failure.said, *failure.causes):
        yield from said.matches


def _captured(matches: Iterable[Match], group: str, ids: tuple[str, ...]) -> str | None:
    """Return what a group holds in the first of these messages that has it."""
    return next((m[group] for m in matches if m.id in ids and m[group]), None)


def _different(failures: list[LogFailure]) -> list[LogFailure]:
    seen: dict[str, LogFailure] = {}
    for failure in failures:
        seen.setdefault(failure.said.words, failure)
    return list(seen.values())


def _remarked(
    remarks: Iterable[Remark], ids: tuple[str, ...]
) -> tuple[StartupFault, tuple[str, str], tuple[Match, ...]] | None:
    for remark in remarks:
        fault = startup_fault(match for match in remark.matches if match.id in ids)
        if fault is not None:
            return fault, (remark.where, clip(remark.text, 300)), remark.matches
    return None


CANNOT_START = {
    "hydra-cannot-start": "mpiexec",
    "srun-cannot-start": "srun",
    "slurm-prolog-failed": "srun",
}
"""Who says that it could not start a program, or that a node takes none."""
_TRIES = ("gai-error", "store-dns", "store-waits")
_NO_START = "jax-never-came"
_OF_LINES = ("gai-error", "error-port-in-use", "nccl-no-interface", _NO_START)
"""What launchers say when a job does not start; what else calls itself so is no error."""


_COUNTS = ("store-clients-joined", "store-counted")
_BARE = ("store-clients-joined", "error-missing")


def _absent(known: set[int], counts: list[tuple[int, int]]) -> tuple[Suspect, ...]:
    """Return the ranks that never came, where the others are all there and say how many came."""
    if not counts:
        return ()
    came, world = counts[0]
    here = {rank for rank in known if rank < world}
    if len(here) != came or not 0 < world - came <= 64:
        return ()
    absent = [rank for rank in range(world) if rank not in here]
    return tuple(Suspect(str(rank), rank, None, "it never joined") for rank in absent)


def _too_late(case: Case, counts: list[tuple[int, int]]) -> tuple[Suspect, ...]:
    """Return the ranks that found no store: as many as those that had counted were short of."""
    late = [
        s.party("it found no store when it came", s.startup[0])
        for s in case.ranks
        if s.startup
        and all(startup_fault(_matches(f)) is StartupFault.UNREACHABLE for f in s.startup)
    ]
    return tuple(late) if {world - came for came, world in counts} == {len(late)} else ()


def _named_absent(case: Case) -> tuple[Suspect, ...]:
    """Return the tasks that JAX's coordinator lists as not having come."""
    told = (remark.match("jax-task-absent") for remark in case.logs.remarks)
    ranks = sorted({int(found["rank"]) for found in told if found is not None})
    here = {rank for rank, standing in case.known.items() if standing.writer.lines}
    return tuple(Suspect(str(r), r, None, "it never joined") for r in ranks if r not in here)
