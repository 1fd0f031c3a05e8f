"""Of a job that hung: who called something else, and who stands where nobody else does."""

from __future__ import annotations

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.blame import Blame, How, Party
from postmortem.diagnose.ranks.deciding.case import Case
from postmortem.diagnose.ranks.deciding.recorder import Difference, Differs, compare
from postmortem.diagnose.ranks.telling import LIBRARIES
from postmortem.facts.flight_recorder import Collective
from postmortem.facts.stackdumps import Doing, RankStack, StackClass
from postmortem.facts.threads import Frame, program_frames

_WAITS = (Doing.COLLECTIVE, Doing.DEVICE)
_MOST_CITED = 6
_VERBS = {
    Doing.COLLECTIVE: "is in another collective,",
    Doing.DEVICE: "waits for its device",
    Doing.IMPORT: "imports a module",
    Doing.LOCK: "waits for a lock",
    Doing.WAIT: "waits",
    Doing.OTHER: "stands",
}


def parted(case: Case) -> Blame | None:
    """Return who differs by the flight recorders of all ranks."""
    found = compare(case.logs.recorders)
    if found is None:
        return None
    where = {one.rank: one.where for one in case.logs.recorders}
    parties = tuple(_recorded(case, rank, _why(found, rank)) for rank in found.odd)
    evidence = tuple(
        (where[rank], f"rank {rank}, number {call.sequence} of group {call.group}: {_call(call)}")
        for rank, call in sorted(found.calls, key=lambda row: row[0] not in found.odd)
    )[:_MOST_CITED]
    if not found.most or found.how is Differs.AHEAD:
        return Blame(How.UNDECIDED, candidates=parties, evidence=evidence, detail="collectives")
    other = next((call for rank, call in found.calls if rank in found.most), None)
    detail = f"{_call(other)}" if other is not None else "another one"
    return Blame(
        How.RECORDED,
        parties,
        sure=found.how is not Differs.BEHIND,
        evidence=evidence,
        detail=detail,
    )


def stands_elsewhere(case: Case) -> Blame | None:
    """Return the ranks that stand elsewhere while the others wait in a collective."""
    stacks = case.logs.stacks
    if stacks is None or len(stacks) < 2:
        return None
    ranks = sum(len(one.members) for one in stacks)
    waiting = [one for one in stacks if one.doing in _WAITS]
    odd = [one for one in stacks if one.doing not in _WAITS]
    if not waiting:  # a collective may be called where no frame shows it: .item(), a C extension
        most = max(stacks, key=lambda one: len(one.members))
        waiting, odd = [most], [one for one in stacks if one is not most]
    if not odd:
        return _in_other_collectives(case, waiting, ranks)
    still = [one for one in odd if not _goes_on(one, stacks.moved)]
    chosen = still or odd
    members = [member for one in chosen for member in one.members]
    parties = tuple(_stack_party(case, one, member) for one in chosen for member in one.members)
    evidence = tuple((m.where, _stack_words(m)) for m in members[:_MOST_CITED])
    evidence += tuple((w.members[0].where, _stack_words(w.members[0])) for w in waiting[:1])
    if 2 * len(members) >= ranks:
        return Blame(How.UNDECIDED, candidates=parties, evidence=evidence, detail="stacks")
    return Blame(
        How.STACK,
        parties,
        sure=bool(still) and stacks.samples > 1 and len(chosen) == 1,
        evidence=evidence,
        detail=_where(waiting[0].thread.frames),
    )


def _in_other_collectives(case: Case, waiting: list[StackClass], ranks: int) -> Blame | None:
    """All wait for each other, in different calls: the few may have missed or added one."""
    most = max(waiting, key=lambda one: len(one.members))
    odd = [one for one in waiting if one is not most]
    members = [member for one in odd for member in one.members]
    parties = tuple(_stack_party(case, one, member) for one in odd for member in one.members)
    evidence = tuple((m.where, _stack_words(m)) for m in (*members[:_MOST_CITED], most.members[0]))
    if 2 * len(members) >= ranks:
        return Blame(How.UNDECIDED, candidates=parties, evidence=evidence, detail="stacks")
    return Blame(How.STACK, parties, evidence=evidence, detail=_where(most.thread.frames))


def _goes_on(one: StackClass, moved: tuple[str, ...]) -> bool:
    """Return whether a class was seen to run or to move: slow, perhaps, and not stuck."""
    return one.is_running is True or any(member.label in moved for member in one.members)


def _recorded(case: Case, rank: int, why: str) -> Party:
    standing = case.known.get(rank)
    if standing is not None:
        return standing.party(why)
    return Party(f"rank {rank}", rank, None, why)


def _why(found: Difference, rank: int) -> str:
    call = found.call(rank)
    if found.how is Differs.BEHIND:
        missed = next((c for r, c in found.calls if r in found.most), None)
        words = f"{_call(missed)}, " if missed is not None else ""
        last = f"; its last was {_call(call)}" if call is not None else ""
        return f"never came to {words}number {found.sequence} of group {found.group}{last}"
    if call is None:
        return "called something else"
    return f"called {_call(call)}"


def _call(call: Collective) -> str:
    sizes = ", ".join("x".join(map(str, size)) or "1" for size in call.input_sizes[:2])
    types = f" {call.dtypes[0]}" if call.dtypes else ""
    site = f" at {_place(call.site)}" if call.site is not None else ""
    return clip(f"{call.operation}({sizes}{types}){site}", 120)


def _place(frame: Frame) -> str:
    name = (frame.file or "?").rpartition("/")[2]
    return f"{name}:{frame.line} in {frame.function}" if frame.line else f"{frame.function}"


def _stack_party(case: Case, one: StackClass, member: RankStack) -> Party:
    verb = "runs, late or busy," if one.is_running else _VERBS[one.doing]
    why = f"{verb} at {_where(member.thread.frames)}"
    standing = case.known.get(member.rank) if member.rank is not None else None
    if standing is not None:
        return standing.party(why)
    return Party(member.label, member.rank, member.host, why)


def _stack_words(member: RankStack) -> str:
    return f"{member.label}: {_where(member.thread.frames)}"


def _where(frames: tuple[Frame, ...]) -> str:
    """Return the innermost calls of the program's own code, Python's first; of all without them."""
    python = [f for f in frames if f.kind == "python"]
    own = [f for f in python if not _is_library(f.file or "")]
    shown = own or python or program_frames(frames) or [f for f in frames if f.function != "??"]
    shown = shown[:2]
    return clip(", called by ".join(map(_place, shown)) or "unknown code", 160)


def _is_library(file: str) -> bool:
    # py-spy shortens the names of files in packages
    short = ("<", "torch/", "threading.py", "multiprocessing/", "selectors.py")
    return file.startswith(short) or any(part in file for part in LIBRARIES)
