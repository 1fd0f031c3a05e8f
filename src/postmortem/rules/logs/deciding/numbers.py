"""Whose numbers went bad first, by the files of the numerics monitor."""

from __future__ import annotations

from postmortem.facts.blame import Blame, How, Party
from postmortem.facts.first_bad import FirstBad, what_failed
from postmortem.facts.frames import Flight
from postmortem.rules.logs.deciding.case import Case

_MONITOR = "NumericsError"


def numbers_went_bad(case: Case) -> Blame | None:
    """Return the ranks whose numbers went bad first, if nobody has an error that is no monitor's.

    By batch, and within a batch by the number of the call: all ranks run the same program.
    """
    found = [(bad, one) for one in case.logs.flights if (bad := what_failed(one)) is not None]
    if not found or _others_failed(case):
        return None
    first = min((bad.batch, bad.frame) for bad, _ in found)
    parties, evidence = [], []
    for bad, flight in found:
        if (bad.batch, bad.frame) == first:
            parties.append(_party(case, bad, flight))
            evidence.append((flight.path, bad.sentence(flight.recorder.world_size)))
    sure = all(bad.confidence == "certain" for bad, _ in found)
    return Blame(How.NUMBERS, tuple(parties), sure=sure, evidence=tuple(evidence[:6]))


def _others_failed(case: Case) -> bool:
    own = [failure for standing in case.all for failure in standing.own]
    return any(_MONITOR not in failure.said.exception for failure in own)


def _party(case: Case, bad: FirstBad, flight: Flight) -> Party:
    rank = flight.recorder.rank
    standing = case.known.get(rank)
    if standing is not None:
        return standing.party(bad.sentence())
    if flight.recorder.world_size < 2:
        return Party("the only process", None, None, bad.sentence())
    return Party(f"rank {rank}", rank, flight.recorder.host or None, bad.sentence())
