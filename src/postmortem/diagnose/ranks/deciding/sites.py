"""Which ranks call another collective than the others, or wait in another place."""

from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.cause_kinds import Doubt
from postmortem.diagnose.ranks.causes import CalledOther, Undecided, WaitsElsewhere
from postmortem.diagnose.ranks.deciding.case import MOST_CANDIDATES, Case, cited, party_of
from postmortem.diagnose.ranks.deciding.rank_state import RankState
from postmortem.diagnose.ranks.deciding.votes import call_sites, fingerprints, minority
from postmortem.diagnose.ranks.deciding.watchdogs import size_of, work_words, works_of
from postmortem.diagnose.ranks.wordings import ErrorRole, part_of


def called_differently(case: Case) -> Attribution | None:
    """Return who called another collective than most, by PyTorch's own check."""
    failures = [f for s in case.all for f in s.about_peers if part_of(f) is ErrorRole.MISMATCH]
    calls = fingerprints(failures)
    if len(calls) < 2:
        return None
    split = minority(calls)
    if split is None:
        parties = tuple(
            party_of(case, rank, f"called {what}", failures) for rank, what in sorted(calls.items())
        )
        if len(set(calls.values())) < 2:
            return None
        cause = Undecided(Doubt.COLLECTIVES)
        return Attribution(cause, candidates=parties, evidence=cited(parties))
    first = tuple(party_of(case, rank, f"called {what}", failures) for rank, what in split.others)
    return Attribution(CalledOther(split.majority), first, sure=True, evidence=cited(first))


def sent_too_much(case: Case) -> Attribution | None:
    """Return the two ranks of a message with the wrong size: either may be the one that is wrong.

    gloo's ring: a rank receives from the next one (gloo/allreduce.cc).
    """
    found = [
        s for s in case.ranks if any(part_of(f) is ErrorRole.SENT_TOO_MUCH for f in s.about_peers)
    ]
    if not found or case.world < 2:
        return None
    odd = odd_site(case)
    if odd is not None:
        return odd
    receiver = found[0]
    failure = next(f for f in receiver.about_peers if part_of(f) is ErrorRole.SENT_TOO_MUCH)
    assert receiver.rank is not None
    parties = [receiver.party("it got more than it asked for", failure)]
    sender = (receiver.rank + 1) % case.world
    if case.logs.world_size or len(case.known) == case.world:
        parties.append(party_of(case, sender, "its ring neighbour, which may have sent it"))
    return Attribution(Undecided(Doubt.SIZES), candidates=tuple(parties), evidence=cited(parties))


def timed_out(standing: RankState) -> bool:
    """Return whether a rank waited for a peer until its time was up."""
    return any(part_of(failure) is ErrorRole.WAITED for failure in standing.about_peers)


def waits_elsewhere(case: Case) -> Attribution | None:
    """Return who waits at another place than most, where all wait."""
    return odd_site(case) or odd_work(case)


def out_of_step(case: Case) -> Attribution | None:
    """Return the ranks whose watchdogs wait in different operations of one group.

    All that report a time-out must: those of several groups may rightly differ. Under one number
    the names of operations count, and their sizes where one name goes with one size; under several
    their sizes: one rank has left the other's behind, which a collective of all does not let it do.
    """
    works = works_of(case)
    group = next(iter(works.values()), {})
    if len(works) > 1:
        return None
    numbers = {work["number"] for work in group.values()}
    words = {rank: f"{work['op']} number {work['number']}" for rank, work in group.items()}
    if len(numbers) > 1:
        sizes = {size_of(work) for work in group.values()}
        if None in sizes or len(sizes) != len(numbers) or len(group) < case.world:
            return None
        words = {rank: work_words(work) for rank, work in group.items()}
    elif len(set(words.values())) == 1 and None not in map(size_of, group.values()):
        words = {rank: work_words(work) for rank, work in group.items()}
    if len(set(words.values())) < 2 or minority(words) is not None:
        return None
    did = "called" if len(numbers) == 1 else "waits in"
    some = [party_of(case, rank, f"{did} {what}") for rank, what in sorted(words.items())]
    parties = tuple(some[:MOST_CANDIDATES])
    return Attribution(Undecided(Doubt.COLLECTIVES), candidates=parties, evidence=cited(parties))


def odd_work(case: Case) -> Attribution | None:
    """Return who waits in another collective than most of its group, as NCCL's watchdogs say."""
    groups = {
        name: {rank: work_words(work) for rank, work in found.items()}
        for name, found in works_of(case).items()
    }
    for name, calls in sorted(groups.items(), key=lambda item: -len(item[1])):
        split = minority(calls) if len(calls) >= 3 else None
        if split is None:
            continue
        parties = tuple(
            party_of(case, rank, f"waits in {what}, most others in {split.majority}")
            for rank, what in split.others
        )
        if len(parties) == 1:
            one = (party_of(case, split.others[0][0], f"waits in {split.others[0][1]}"),)
            # Before torch 2.2 a time-out does not say of which group it is.
            cause = WaitsElsewhere(split.majority, if_one_group=not name)
            return Attribution(cause, one, evidence=cited(one))
        some = parties[:MOST_CANDIDATES]
        return Attribution(Undecided(Doubt.SITES), candidates=some, evidence=cited(some))
    return None


def not_among_the_late(waiting: tuple[RankState, ...]) -> tuple[Suspect, ...]:
    """Return who was in another place than all whose time was up, until they were gone."""
    late = {*call_sites(s for s in waiting if timed_out(s)).values()}
    rest = {s.rank: s for s in waiting if not timed_out(s)}
    apart = {r: site for r, site in call_sites(rest.values()).items() if site not in late}
    if len(late) != 1 or len(apart) > MOST_CANDIDATES:
        return ()
    return tuple(rest[rank].party(f"waits in {site}") for rank, site in apart.items())


def odd_site(case: Case) -> Attribution | None:
    """Return who waits at another line of the program than most."""
    waiting = case.about_peers()
    sites = call_sites(waiting)
    split = minority(sites)
    # When a peer went away, ranks are caught wherever they are; when all wait, it tells.
    count = sum(timed_out(standing) for standing in waiting)
    if split is None or len(sites) < 3 or 2 * count <= len(waiting):
        return None
    parties = tuple(party_of(case, rank, f"waits in {what}") for rank, what in split.others)
    if len(parties) > 1:  # in a ring, the neighbours of the odd one stop with it
        some = parties[:MOST_CANDIDATES]
        return Attribution(Undecided(Doubt.SITES), candidates=some, evidence=cited(parties))
    return Attribution(WaitsElsewhere(split.majority), parties, evidence=cited(parties))
