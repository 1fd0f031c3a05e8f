"""All ranks raised the same exception.

What it means
    Code, configuration or environment that all ranks share is at fault; no rank is to blame
    more than another.
How to be sure
    The same words come from every rank, and none reports a lost peer before.
What to do
    Read one traceback; it is every rank's. It fails in one process just as well.
"""

from postmortem.diagnose.ranks import phrases
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import EveryRankRaised
from postmortem.diagnose.ranks.wordings import about_numbers
from postmortem.diagnose.rule import Finding, Findings, rule

_SHARED = "What they share is at fault: code, configuration or environment."
_SUMMED = (
    "A sum over all ranks brings what is no number on one of them to all: whose it was first, "
    "these errors do not say."
)
_LOOK = "print the loss of each rank before it is summed: which is the first that is no number?"


@rule("https://pytorch.org/docs/stable/elastic/errors.html")
def every_rank_raised(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, EveryRankRaised) or not blame.first:
        return
    failure = blame.first[0].failure
    known = phrases.known_cause(failure)
    means = f" {known.cause}" if known is not None else ""
    steps = known.next_steps if known is not None else ()
    said = failure.words if failure is not None else blame.first[0].why
    summed = about_numbers(party.failure for party in blame.first)
    count = len(blame.first)
    who = f"{count} of {blame.cause.world}" if blame.cause.world > count else f"all {count}"
    yield Finding(
        lead=f"{who} ranks",
        title=f"{who} ranks raised {said}",
        cause=f"{phrases.ranks_words(blame.first)} failed with the same error.{means} "
        f"{_SUMMED if summed else _SHARED}",
        confidence=phrases.how_sure(blame),
        next_steps=(
            *phrases.advice(failure),
            *phrases.look_at(blame),
            *steps,
            _LOOK if summed else "run it with one process: it should fail there too, and faster",
        ),
        evidence=phrases.cite(blame),
    )
