"""Who came to a collective when the others had given up, or left before, and is named by nobody."""

from itertools import islice

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.cause_kinds import Doubt, NamedBy
from postmortem.diagnose.ranks.causes import LeftEarly, NamedMissing, Undecided
from postmortem.diagnose.ranks.deciding.case import MOST_CANDIDATES, Case, cited, cited_line
from postmortem.diagnose.ranks.deciding.sites import timed_out
from postmortem.diagnose.ranks.wordings import ErrorRole, part_of
from postmortem.facts.last_lines import LastLines
from postmortem.facts.rank_logs import LogFailure

_FEWEST = 3
"""Ranks: of two that lost each other either may have come late."""


def came_late(case: Case) -> Attribution | None:
    """Return the one rank that was busy for as long as others waited, and then found peers gone.

    Had it come in time, nobody would have given up.
    """
    errors = [(s, f) for s in case.about_peers() for f in s.about_peers]
    waits = [found for _, f in errors if (found := f.first_said.match("peer-waited")) is not None]
    longest = max((int(found["ms"]) / 1000 for found in waits), default=0.0)
    enough = thresholds.OF_THE_WAIT * longest
    late = [(s, f, f.paused) for s, f in errors if f.paused and f.paused.seconds >= enough > 0]
    if len(late) != 1:
        return None
    state, failure, pause = late[0]
    party = state.party("it was busy while others waited", failure)
    said = f"nothing for {pause.seconds:.0f} s, others waited {longest:g} s; then: "
    shown = pause.line.where, said + clip(pause.line.text, 200)
    cause = NamedMissing(NamedBy.PAUSE)
    return Attribution(cause, (party,), evidence=(shown, *cited((party,))))


def found_others_gone(case: Case) -> Attribution | None:
    """Return the one rank that did not time out where all others did: it likely came after that.

    Those of another collective than its own may have waited for each other.
    """
    waiting = case.about_peers()
    gone = [state for state in waiting if not timed_out(state)]
    closed = bool(gone) and all(part_of(f) is ErrorRole.CLOSED for f in gone[0].about_peers)
    all_here = {state.rank for state in waiting} == {*range(max(len(waiting), case.world))}
    if len(gone) != 1 or len(waiting) < _FEWEST or not closed or not all_here:
        return None
    why = "it found the others gone, which had waited until their time was up"
    party = gone[0].party(why, gone[0].about_peers[-1])
    others = (one.party("", one.about_peers[-1]) for one in waiting if one is not gone[0])
    evidence = cited((party, *islice(others, _FEWEST)))
    return Attribution(Undecided(Doubt.LATE), candidates=(party,), evidence=evidence)


def left_unlisted(case: Case) -> Attribution | None:
    """Return who is not in torchrun's list, if each one there lost a peer of its own host.

    The first of them lost one that did not fail, else it would be in the list.
    """
    waiting = case.about_peers()
    listed = {e.rank for e in case.logs.exits if e.launcher == "torchrun" and e.rank is not None}
    here = {s.rank for s in waiting if s.rank is not None and all(map(_lost_here, s.about_peers))}
    all_here = case.summarised and len(here) == len(waiting) and here == listed
    if not all_here or _at_work(case):
        return None
    count, gone = case.without(here)
    if count > 1 or (case.logs.world_size is not None and not count):  # of another host, or nobody
        return None
    rank = next(gone, None)
    label = "one more rank of this host" if rank is None else str(rank)
    one = Suspect(label, rank, None, "no launcher lists it as failed: it ended with 0")
    shown = cited(s.party("") for s in waiting[:4])
    return Attribution(LeftEarly(numbered=rank is not None), (one,), evidence=shown)


def ended_at_work(case: Case) -> Attribution | None:
    """Return whose log ends in the middle of its work, where others lost a peer."""
    waiting, found = case.about_peers(), _at_work(case)
    if not waiting or not found:
        return None
    evidence = tuple(cited_line(one.last) for one in found)
    who = (case.logs.who(one.writer).label for one in found)
    why = "its lines end in the middle of its work"
    return Attribution(
        Undecided(Doubt.SILENT),
        candidates=tuple(Suspect(label, None, None, why) for label in who),
        evidence=(*evidence, *cited(s.party("") for s in waiting[:4])),
    )


def _at_work(case: Case) -> list[LastLines]:
    """Return how logs end of which nobody's rank, end or error is known, if they end at work."""
    told = {*(one.file for one in case.logs.failures), *(one.file for one in case.logs.exits)}
    shared = (one for one in case.logs.last_lines if case.logs.who(one.writer).shared)
    busy = (one for one in shared if one.worked or one.last.since)
    open_ = (one for one in busy if not (one.ended or one.done or one.stopped))
    return [one for one in open_ if one.last.file not in told][:MOST_CANDIDATES]


def _lost_here(failure: LogFailure) -> bool:
    found = failure.first_said.match("peer-address")
    return found is not None and found["peer"].startswith("127.")
