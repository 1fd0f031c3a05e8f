"""Of a job that hung: who called something else, and who stands where nobody else does."""

import sys
from collections.abc import Mapping, Sequence
from itertools import islice

from postmortem.diagnose.jam.jam import CalledOther, Culprit, Disagrees, Inside, Sign
from postmortem.diagnose.jam.words import culprit_words, detail_words, place_words, ranks_and
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.cause_kinds import Doubt
from postmortem.diagnose.ranks.causes import HoldsUp, SilentAlone, StandsElsewhere, Undecided
from postmortem.diagnose.ranks.deciding.case import MOST_CANDIDATES, Case, cited_line
from postmortem.diagnose.ranks.deciding.rank_state import RankState
from postmortem.diagnose.stacks.classes import waits_for_loader
from postmortem.facts.confidence import Confidence
from postmortem.facts.stackdumps import Doing, RankStack, StackClass, StackClasses
from postmortem.facts.threads import Frame, is_own, program_frames
from postmortem.records import replace

_WAITS = (Doing.COLLECTIVE, Doing.DEVICE)
_MOST_CITED = 6
_NOBODY: Mapping[int, RankState] = {}
_VERBS = {
    Doing.COLLECTIVE: "is in another collective,",
    Doing.DEVICE: "waits for its device",
    Doing.IMPORT: "imports a module",
    Doing.LOCK: "waits for a lock",
    Doing.WAIT: "waits",
    Doing.OTHER: "stands",
}


def holding_up(case: Case) -> Attribution | None:
    """Return who holds up all others by the flight recorders, if the job stood still."""
    jam = case.jam
    if jam is None or not jam.culprits:
        return None
    chosen = jam.culprits
    if jam.sign is Sign.AGAINST:  # a job that runs waits everywhere; what differs, differs
        chosen = tuple(one for one in chosen if isinstance(one.cause, CalledOther))
        if not chosen:
            return None
        jam = replace(jam, culprits=chosen)
    elif jam.sign is Sign.UNKNOWN:
        jam = replace(jam, culprits=tuple(_unless_called_other(one) for one in chosen))
    return Attribution(
        HoldsUp(),
        tuple(_recorded(case, one) for one in jam.culprits),
        sure=all(one.sure is Confidence.CERTAIN for one in jam.culprits),
        evidence=(*_cited(case, jam.culprits), *_stands(case, jam.culprits)),
        jam=jam,
    )


def _stands(case: Case, culprits: Sequence[Culprit]) -> tuple[tuple[str, str], ...]:
    """Return where stacks show those who hold up the others, outside of any collective."""
    ranks = {one.rank for one in culprits}
    odd = (one for one in case.logs.stacks or () if one.doing not in _WAITS)
    members = (m for one in odd for m in one.members if m.rank in ranks)
    return tuple((m.where, _stack_words(m)) for m in islice(members, _MOST_CITED))


def jam_undecided(case: Case) -> Attribution | None:
    """Return who may hold up the others by the flight recorders, where nothing decides it."""
    jam = case.jam
    if jam is None or jam.culprits or jam.sign is Sign.AGAINST:
        return None
    disagree = tuple(one for one in jam.candidates if isinstance(one.cause, Disagrees))
    chosen = disagree or jam.candidates
    return Attribution(
        Undecided(Doubt.COLLECTIVES if disagree else Doubt.JAM),
        candidates=tuple(_recorded(case, one) for one in chosen),
        evidence=_cited(case, chosen),
        jam=jam,
    )


def stands_elsewhere(
    stacks: StackClasses | None, known: Mapping[int, RankState] = _NOBODY, world: int = 0
) -> Attribution | None:
    """Return the ranks that stand elsewhere while the others wait in a collective.

    Of ranks that are `known`, it is told how they ended; who missed a peer waited too. `world` is
    how many there are at least, where more than stacks tells of that.
    """
    if stacks is None or len(stacks) < 2 or stacks.go_on:
        return None
    seen = [member.rank for one in stacks for member in one.members]
    ranks = len(seen) + sum(bool(s.about_peers) for rank, s in known.items() if rank not in seen)
    waiting = [one for one in stacks if one.doing in _WAITS]
    odd = [one for one in stacks if one.doing not in _WAITS]
    if not waiting:  # a collective may be called where no frame shows it: .item(), a C extension
        most = max(stacks, key=lambda one: len(one.members))
        waiting, odd = [most], [one for one in stacks if one is not most]
    if not odd:
        return _in_other_collectives(known, waiting, ranks)
    still = [one for one in odd if not _goes_on(one, stacks.moved)]
    chosen = still or odd
    members = [member for one in chosen for member in one.members]
    loading = any(waits_for_loader(member.thread.frames) for member in members)
    busy = stacks.workers if loading else ()
    if len(members) == len(busy) == 1:
        words = f"waits for its {busy[0].label}, which stands at {_where(busy[0].thread.frames)}"
        parties: tuple[Suspect, ...] = (_suspect(known, members[0], words),)
    else:
        parties = tuple(_stack_party(known, one, m) for one in chosen for m in one.members)
    evidence = tuple((m.where, _stack_words(m)) for m in members[:_MOST_CITED])
    evidence += tuple((one.where, _stack_words(one)) for one in busy[:_MOST_CITED])
    evidence += tuple((w.members[0].where, _stack_words(w.members[0])) for w in waiting[:1])
    # Of two ranks the one in a collective waits for the other; of four one may miss any of the two.
    two = ranks == world == 2 and waiting[0].doing is Doing.COLLECTIVE
    half = 1 if two else (ranks - 1) // 2
    if len(members) > half:
        return Attribution(Undecided(Doubt.STACKS), candidates=parties, evidence=evidence)
    return Attribution(
        StandsElsewhere(_where(waiting[0].thread.frames)),
        parties,
        sure=bool(still) and stacks.samples > 1 and len(chosen) == 1,
        evidence=evidence,
    )


def stood(stacks: StackClasses | None, rank: int | None) -> tuple[str, str]:
    """Return where the stack of a rank is, and where that shows it; two empty texts without one."""
    members = (member for one in stacks or () for member in one.members)
    own = next((one for one in members if one.rank == rank is not None), None)
    return (own.where, _where(own.thread.frames)) if own is not None else ("", "")


def not_seen(case: Case) -> Attribution | None:
    """Return the few ranks without a stack, where all others wait in one collective."""
    stacks = case.logs.stacks
    if stacks is None or len(stacks) != 1 or stacks.items[0].doing is not Doing.COLLECTIVE:
        return None
    if stacks.go_on:
        return None
    one = stacks.items[0]
    seen = {member.rank for member in one.members if member.rank is not None}
    count, gone = case.without(seen)
    if not 0 < count < len(seen):
        return None
    why = "no stack of it is here, and the others wait in a collective"
    parties = tuple(
        case.known[rank].party(why)
        if rank in case.known
        else Suspect(f"rank {rank}", rank, case.hosts.get(rank), why)
        for rank in islice(gone, MOST_CANDIDATES)
    )
    evidence = tuple((m.where, _stack_words(m)) for m in one.members[:_MOST_CITED])
    return Attribution(Undecided(Doubt.UNSEEN), candidates=parties, evidence=evidence)


def stopped_alone(case: Case) -> Attribution | None:
    """Return the Python processes that ps shows stopped, where logs end without a word on why."""
    if any(one.done or one.ended for one in case.logs.last_lines):
        return None
    shown = [(one, one.match("process-stopped")) for one in case.logs.remarks]
    found = {m["pid"]: one for one, m in shown if m is not None and m["python"]}
    parties = tuple(
        Suspect(f"pid {pid}", None, None, "ps shows it stopped by a signal")
        for pid, one in islice(found.items(), MOST_CANDIDATES)
    )
    evidence = tuple(map(cited_line, found.values()))[:8]
    cause = SilentAlone(halted=True, waited_for=False)
    return Attribution(cause, parties, evidence=evidence) if parties else None


def _in_other_collectives(
    known: Mapping[int, RankState], waiting: list[StackClass], ranks: int
) -> Attribution | None:
    """All wait for each other, in different calls: the few may have missed or added one."""
    most = max(waiting, key=lambda one: len(one.members))
    odd = [one for one in waiting if one is not most]
    members = [member for one in odd for member in one.members]
    parties = tuple(_stack_party(known, one, member) for one in odd for member in one.members)
    evidence = tuple((m.where, _stack_words(m)) for m in (*members[:_MOST_CITED], most.members[0]))
    if 2 * len(members) >= ranks:
        return Attribution(Undecided(Doubt.STACKS), candidates=parties, evidence=evidence)
    return Attribution(StandsElsewhere(_where(most.thread.frames)), parties, evidence=evidence)


def _goes_on(one: StackClass, moved: tuple[str, ...]) -> bool:
    """Return whether a class was seen to run or to move: slow, perhaps, and not stuck."""
    return one.is_running is True or any(member.label in moved for member in one.members)


def _unless_called_other(one: Culprit) -> Culprit:
    return one if isinstance(one.cause, CalledOther) else replace(one, sure=Confidence.POSSIBLE)


def _recorded(case: Case, one: Culprit) -> Suspect:
    why = "; ".join(words for words in (culprit_words(one), detail_words(one)) if words)
    standing = case.known.get(one.rank)
    if standing is not None:
        return standing.party(why)
    return Suspect(f"rank {one.rank}", one.rank, case.hosts.get(one.rank), why)


def _cited(case: Case, culprits: Sequence[Culprit]) -> tuple[tuple[str, str], ...]:
    """Return the dumps of the culprits, and for each of some who waits for it."""
    where = {one.rank: one.where for one in case.logs.recorders}
    rows: dict[str, tuple[str, str]] = {}
    for one in culprits[:_MOST_CITED]:
        words = culprit_words(one)
        place = where.get(one.rank, "dumps of the others")
        alike = [other.rank for other in culprits if culprit_words(other) == words]
        if isinstance(one.cause, Inside) and len(alike) > 1:
            rows.setdefault(words, (place, f"{ranks_and(alike)} are{words.removeprefix('is')}"))
        else:
            rows[f"{one.rank}"] = place, f"rank {one.rank} {words}"
    return tuple(rows.values())


def _stack_party(known: Mapping[int, RankState], one: StackClass, member: RankStack) -> Suspect:
    verb = "runs, late or busy," if one.is_running else _VERBS[one.doing]
    return _suspect(known, member, f"{verb} at {_where(member.thread.frames)}")


def _suspect(known: Mapping[int, RankState], member: RankStack, why: str) -> Suspect:
    standing = known.get(member.rank) if member.rank is not None else None
    if standing is not None:
        return standing.party(why)
    return Suspect(member.label, member.rank, member.host, why)


def _stack_words(member: RankStack) -> str:
    return f"{member.label}: {_where(member.thread.frames)}"


def _where(frames: tuple[Frame, ...]) -> str:
    """Return the innermost calls of the program's own code, Python's first; of all without them."""
    python = [f for f in frames if f.kind == "python"]
    own = [f for f in python if not _is_library(f.file or "")]
    shown = own or python or program_frames(frames) or [f for f in frames if f.function != "??"]
    shown = shown[:2]
    return clip(", called by ".join(map(place_words, shown)) or "unknown code", 160)


def _is_library(file: str) -> bool:
    # py-spy shortens the names of files in packages, and of Python's own modules
    module = file.partition("/")[0].removesuffix(".py")
    of_python = module in sys.stdlib_module_names
    return of_python or file.startswith(("<", "torch/")) or not is_own(file)
