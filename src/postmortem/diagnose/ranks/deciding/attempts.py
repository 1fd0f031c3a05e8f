"""The decision of each attempt of a job, and which of them the report tells of."""

from postmortem.diagnose.ranks.attribution import Attempts, Attribution
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.diagnose.ranks.deciding.case import same_words
from postmortem.diagnose.ranks.deciding.decide import decide
from postmortem.facts.rank_logs import RankLogs

_NOT_ITS_OWN = (CauseKind.STARTUP, CauseKind.UNDECIDED, CauseKind.MISSING)


def decide_attempts(logs: RankLogs) -> Attempts:
    """Return what was decided of each attempt.

    The last one counts: a job that came through after a restart did not fail. But one that only
    found what an earlier one had left behind (a port, addresses in a store) is no cause: then the
    latest that names a rank is told of.
    """
    blames = tuple(decide(logs.of_attempt(attempt)) for attempt in range(logs.attempts))
    told = len(blames) - 1
    if blames[told].how in _NOT_ITS_OWN:
        named = [
            i for i, blame in enumerate(blames) if blame.first and blame.how not in _NOT_ITS_OWN
        ]
        told = named[-1] if named else told
    alike = sum(_key(blame) == _key(blames[told]) for blame in blames)
    return Attempts(blames, told, alike)


def _key(blame: Attribution) -> object:
    """Return what failures that are the same have in common."""
    words = tuple(sorted({same_words(p.failure) if p.failure else p.why for p in blame.first}))
    # Who has no rank is called after its file or its process, which each attempt has its own of.
    ranks = tuple(sorted(-1 if p.rank is None else p.rank for p in blame.first))
    return blame.how, blame.fault, ranks, words
