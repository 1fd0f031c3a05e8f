"""What the rules over a jam say alike: one finding for all culprits of a kind."""

from collections.abc import Iterator

from postmortem.diagnose.jam.jam import Culprit, Sign
from postmortem.diagnose.jam.words import (
    culprit_words,
    detail_words,
    ranks_and,
    share_words,
    short_words,
)
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.diagnose.ranks.phrases import cite, torchrun_words
from postmortem.diagnose.rule import Finding
from postmortem.facts.confidence import Confidence, weakest
from postmortem.text import more

_MOST_TOLD = 8


def jam_finding(
    blame: Attribution, causes: tuple[str, ...], next_steps: tuple[str, ...]
) -> Iterator[Finding]:
    """Yield one finding on the culprits whose causes are of these types, if there are any."""
    jam = blame.jam
    if blame.how is not CauseKind.RECORDED or jam is None:
        return
    mine = [one for one in jam.culprits if type(one.cause).__name__ in causes]
    if not mine:
        return
    who = ranks_and([one.rank for one in mine])
    words = list(dict.fromkeys(short_words(one) for one in mine))
    what = words[0] + more(len(words) - 1, ", and {} more alike")
    rows = [_sentence(one) for one in mine[:_MOST_TOLD]]
    left = len(mine) - len(rows)
    told = ". ".join(row[0].upper() + row[1:] for row in rows)
    told += more(left, ", and {} more alike")
    conditional = jam.sign is Sign.UNKNOWN and any(one.sure is Confidence.POSSIBLE for one in mine)
    doubt = f" If the job hangs at all: {jam.sign_words}." if conditional else ""
    yield Finding(
        title=f"{who} {what}",
        cause=f"{told}. {share_words(jam)}.{doubt}{torchrun_words(blame)}",
        confidence=weakest(one.sure for one in mine),
        next_steps=next_steps,
        evidence=cite(blame),
    )


def _sentence(one: Culprit) -> str:
    more = detail_words(one)
    return f"rank {one.rank} {culprit_words(one)}" + (f" ({more})" if more else "")
