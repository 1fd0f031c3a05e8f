"""All errors are about a peer, and nothing tells which peer began."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.blame import Blame, How
from postmortem.diagnose.ranks.telling import cite, ranks_words
from postmortem.diagnose.rule import Finding, rule
from postmortem.report.model import Confidence, Role


@rule(role=Role.CASCADE, references=("https://pytorch.org/docs/stable/elastic/errors.html",))
def only_victims(blame: Blame) -> Iterator[Finding]:
    """All errors are about a peer, and nothing tells which peer began.

    What it means
        Time-outs and closed connections are consequences. The cause is with a rank whose lines
        are not here, or that ended without a word.
    How to be sure
        No line of these logs is an error of the rank that wrote it.
    What to do
        Give the logs of all hosts and ranks, and the number of ranks (--world-size).
    """
    if blame.how is not How.UNDECIDED or blame.detail not in ("peers", "silent", "ends", "cut"):
        return
    who = ranks_words(blame.candidates)
    if blame.detail == "silent":
        cause = f"{who} have no error while others wait for a peer: one of them began."
        title = f"undecided among {who}, which are silent"
        if len(blame.candidates) == 1:
            cause = f"{who} has no error while others wait for a peer; more ranks may be missing."
            title = f"undecided: {who} is silent, and others may be missing"
    elif blame.detail == "cut":
        cause = f"the traceback of {who} is cut off before its last line, which says what failed."
        title = f"the log is cut off in a traceback of {who}"
    elif blame.detail == "ends":
        cause = f"launchers say that {who} ended badly, and no log says why."
        title = f"{who} ended badly, and no log says why"
    else:
        cause = f"{who} only report that a peer was lost or late; no line here says why."
        title = f"only victims: {who} lost a peer"
    yield Finding(
        title=clip(title, 100),
        cause=cause,
        confidence=Confidence.POSSIBLE,
        next_steps=(
            "give the logs of all hosts and ranks, also standard output, and --world-size N",
            "TORCH_FR_BUFFER_SIZE=2000 and TORCH_DISTRIBUTED_DEBUG=DETAIL next time decide it",
        ),
        evidence=cite(blame),
    )
