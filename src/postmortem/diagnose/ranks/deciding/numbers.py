"""Whose numbers went bad first, by the files of the numerics monitor or by what ranks print."""

from collections.abc import Iterator, Sequence

from postmortem.diagnose.numerics.first_bad import FirstBad, Origin
from postmortem.diagnose.numerics.flight_verdict import what_failed
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.causes import NumbersWentBad
from postmortem.diagnose.ranks.deciding.case import Case
from postmortem.diagnose.ranks.deciding.rank_state import RankState
from postmortem.diagnose.ranks.wordings import about_numbers
from postmortem.facts.confidence import Confidence
from postmortem.facts.frames import Flight
from postmortem.facts.last_lines import Printed

_MONITOR = "NumericsError"
_FEWEST, _MOST = 2, 4
_Found = tuple[FirstBad, Flight]


def numbers_went_bad(case: Case) -> Attribution | None:
    """Return the ranks whose numbers went bad first, if nobody has an error that is no monitor's.

    By time where one clock wrote all files. Else by batch, and within a batch by the number of the
    call: all ranks run the same program, but one that evaluates alone counts more batches. What
    ranks have summed tells nothing where one of them had it before the sum.
    """
    found = [(bad, one) for one in case.logs.flights if (bad := what_failed(one)) is not None]
    if not found:
        return _printed_first(case)
    if _others_failed(case):
        return None
    alone = {bad.batch for bad, _ in found if bad.origin is Origin.GRADIENT and not bad.summed}
    found = [(bad, one) for bad, one in found if not (bad.summed and bad.batch in alone)]
    order = _when if len({f.recorder.host for _, f in found}) == 1 else _place
    found = _without_followers(min(found, key=order)[0], found)
    first, _ = min(found, key=order)
    named = [(bad, one) for bad, one in found if _is_same(first, bad)]
    said = [(one.path, bad.sentence(one.recorder.world_size)) for bad, one in named]
    return Attribution(
        NumbersWentBad(first),
        tuple(_party(case, bad, one) for bad, one in named),
        sure=all(bad.confidence == Confidence.CERTAIN and not bad.summed for bad, _ in found),
        evidence=tuple(said[:6]),
    )


def bad_elsewhere(case: Case, raised: Sequence[RankState]) -> bool:
    """Return whether another rank prints as none what those print as a number who raised for it."""
    if not _about_numbers(raised):
        return False
    ranks = {state.rank for state in raised}
    return any(
        any(one.bad and state.rank not in ranks for state, one in rows)
        and any(not one.bad and state.rank in ranks for state, one in rows)
        for rows in _printed(case)
    )


def _printed_first(case: Case) -> Attribution | None:
    """Return the rank that printed no number at a step at which all others print one.

    Only where nobody failed, or for an error that is about such numbers and not of that rank alone.
    """
    raised = [standing for standing in case.all if standing.own]
    if not _about_numbers(raised) if raised else case.failed():
        return None
    for rows in _printed(case):
        if len({one.column for _, one in rows}) > 1 or rows[0][1].column < 0:
            continue
        bad = [(one.since, state, one) for state, one in rows if one.bad is not None]
        if len(bad) > 1 and not all(one.before for _, _, one in bad):
            continue
        first = min((since for since, _, _ in bad), default=0)
        named = [(state, one) for since, state, one in bad if since == first]
        if len(named) != 1 or any(not one.bad and one.last < first for _, one in rows):
            continue
        state, line = named[0][0], named[0][1].bad
        if line is None or len(rows) < _FEWEST or {s.rank for s in raised} == {state.rank}:
            continue
        party = state.party(f"it was the first to print {line.text.strip()!r}")
        said = [
            (f.where, f"{s.party('').words}: {f.said.words}") for s in raised for f in s.own[:1]
        ]
        cited = ((line.where, line.text.strip()), *said[:_MOST])
        return Attribution(NumbersWentBad(None), (party,), evidence=cited)
    return None


def _about_numbers(raised: Sequence[RankState]) -> bool:
    return about_numbers(f for state in raised for f in state.own)


def _printed(case: Case) -> Iterator[list[tuple[RankState, Printed]]]:
    """Yield what ranks print alike, of each rank how it reads there."""
    forms: dict[str, list[tuple[RankState, Printed]]] = {}
    for end in case.logs.last_lines:
        rank = case.logs.writers[end.writer].rank
        if rank is not None and rank in case.known:
            for one in end.printed:
                forms.setdefault(one.form, []).append((case.known[rank], one))
    named: dict[str, list[tuple[RankState, Printed]]] = {}
    for rank, one in case.logs.losses:
        if rank in case.known:
            named.setdefault(one.form, []).append((case.known[rank], one))
    yield from (*forms.values(), *(rows for form, rows in named.items() if form not in forms))


def _without_followers(first: FirstBad, found: list[_Found]) -> list[_Found]:
    """Leave out who made bad numbers in the call before which another rank's weight was bad.

    Where one rank's shard of a weight is bad, the ranks with the others see the output alone.
    """
    place = first.batch, first.frame
    here = [bad for bad, _ in found if (bad.batch, bad.frame) == place]
    if not any(bad.origin is Origin.WEIGHT for bad in here):
        return found
    return [
        (bad, one)
        for bad, one in found
        if (bad.batch, bad.frame) != place or bad.origin not in (Origin.PRODUCER, Origin.BETWEEN)
    ]


def _is_same(first: FirstBad, other: FirstBad) -> bool:
    """Whether another rank saw the same: sharded gradients differ in where, but hold one sum."""
    if first.summed:
        return other.summed and other.batch == first.batch
    return (other.batch, other.frame) == (first.batch, first.frame)


def _when(one: tuple[FirstBad, Flight]) -> tuple[float, int, int]:
    bad, flight = one
    times = (f.time for f in flight.frames if f.number == bad.frame)
    return (next(times, 0.0), *_place(one))


def _place(one: tuple[FirstBad, Flight]) -> tuple[int, int]:
    return one[0].batch, one[0].frame


def _others_failed(case: Case) -> bool:
    own = [failure for standing in case.all for failure in standing.own]
    return any(_MONITOR not in failure.said.exception for failure in own)


def _party(case: Case, bad: FirstBad, flight: Flight) -> Suspect:
    rank = flight.recorder.rank
    standing = case.known.get(rank)
    if standing is not None:
        return standing.party(bad.sentence())
    if flight.recorder.world_size < 2:
        return Suspect("the process", None, None, bad.sentence())
    return Suspect(f"rank {rank}", rank, flight.recorder.host or None, bad.sentence())
