"""One rank, or a few, raised an exception of their own.

What it means
    Its exception is not about a peer: it is where the failure began. When it ends, its
    connections close, and all others report that.
How to be sure
    Its traceback ends in its own code or data; the others' end in a collective.
What to do
    Read its traceback and leave the others alone. Does the failing line need the group? If
    not, the fault shows on one rank too.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import Raised
from postmortem.diagnose.ranks.phrases import (
    advice,
    cite,
    how_sure,
    known_cause,
    look_at,
    ranks_words,
    torchrun_words,
)
from postmortem.diagnose.rule import Finding, Findings, rule
from postmortem.facts.confidence import Confidence
from postmortem.facts.rank_logs import LogFailure
from postmortem.knowledge.messages import about

_GONE = tuple(
    f"{name}Error"
    for name in "ConnectionReset ConnectionRefused BrokenPipe EOF FileNotFound".split()
)
_ALONE = "run the failing line in one process with the same input: most such errors need no group"


@rule("https://pytorch.org/docs/stable/elastic/errors.html")
def rank_raised(blame: Attribution) -> Findings:
    if not isinstance(blame.cause, Raised) or not blame.first:
        return
    party = blame.first[0]
    failure = party.failure
    who = ranks_words(blame.first)
    host = f"These are all ranks of {blame.whole_host}. " if blame.whole_host else ""
    said = failure.words if failure is not None else party.why
    known = known_cause(failure)
    if blame.warned is not None and (known is None or known.role != "root"):
        known = about(blame.warned)
    means = known.cause if known is not None else _own(blame)
    steps = known.next_steps if known is not None else ()
    in_a_group = party.rank is not None or bool(blame.victims)
    verb = "raised" if party.rank is not None else "has"
    yield Finding(
        lead=who,
        title=f"{who} {verb} {said}",
        cause=f"{_began(failure)}{host}{_asked(failure)}{means}{torchrun_words(blame)}",
        confidence=Confidence.POSSIBLE
        if _is_logged(blame)
        else Confidence.LIKELY
        if _asked(failure)
        else how_sure(blame),
        next_steps=(*advice(failure), *look_at(blame), *steps, *((_ALONE,) if in_a_group else ())),
        evidence=cite(blame),
    )


def _began(failure: LogFailure | None) -> str:
    """Return what was raised first, where another error came while that was handled."""
    if failure is None or failure.group is not None:
        return ""
    if failure.said.words.startswith(failure.first_said.words):  # a worker's, raised once more
        return ""
    return f"It began with {clip(failure.first_said.words, 160)}. "


def _asked(failure: LogFailure | None) -> str:
    """Return that another process is behind it: who asked for it by RPC, or its own worker."""
    if failure is None:
        return ""
    if any("torch/distributed/rpc/internal" in frame.file for frame in failure.frames):
        return (
            "It was raised in a function that another rank asked for by RPC, with what that gave. "
        )
    handed = any(frame.function == "rebuild_storage_fd" for frame in failure.frames)
    if not handed or failure.first_said.exception not in _GONE:
        return ""
    return (
        "The worker process that had a tensor for it was gone: what ended that is the cause, a "
        "signal perhaps (dmesg tells of the OOM killer). "
    )


def _is_logged(blame: Attribution) -> bool:
    """Return whether a program may have caught it: of no rank that others missed."""
    failure = blame.first[0].failure
    alone = blame.first[0].rank is None and not blame.victims
    return alone and failure is not None and failure.logged


def _own(blame: Attribution) -> str:
    """Return why this error began it, where nothing is known of its words."""
    failure = blame.first[0].failure
    if blame.first[0].rank is None and not blame.victims:
        first = failure.caught_in if failure is not None else ""
        if failure is not None and failure.torn:
            return (
                "Its traceback begins above what is here: it may have been caught there. Whether "
                "it ended the process is not told."
            )
        if _is_logged(blame):
            return (
                "A logger wrote it, and more behind it: it may have been caught. Whether it ended "
                "the process is not told."
            )
        if not first:
            return "Nothing caught the exception, so it ended the process."
        return (
            f"Its traceback begins in {clip(first, 60)}(), not in the main module of a program: it "
            "may have been caught there. Whether it ended the process is not told."
        )
    if not blame.victims or blame.also:
        return "The error is not about a lost peer: this rank failed by itself."
    return "All other errors in the logs only say that a peer was lost."
