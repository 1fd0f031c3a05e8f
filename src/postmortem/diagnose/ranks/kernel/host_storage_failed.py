"""A disk or a file server failed on the host of the rank that failed first.

What it means
    The rank's "Input/output error", its SIGBUS or its wait while it read a file is what the
    program saw of it.
How to be sure
    The kernel's lines are of the same host and hour, and of the file system that the rank used:
    findmnt -T PATH says which it is.
What to do
    Look at the device or the server first; the program is well.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.kernel import words
from postmortem.diagnose.ranks.phrases import ranks_words
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule


@rule("https://man7.org/linux/man-pages/man3/errno.3.html", role=Role.CONTRIBUTING)
def host_storage_failed(blame: Attribution) -> Findings:
    ours = words.storage_ties(blame)
    if not ours:
        return
    tie = ours[0]
    what = f"{tie.event.device}: " if tie.event.device else ""
    host = f" on {tie.event.host}" if tie.event.host else ""
    yield Finding(
        title=f"storage failed{host}: {what}{tie.event.words}",
        cause=f"{words.meaning(tie)} {ranks_words(blame.first)} failed at a file."
        f"{words.joined(tie)}",
        confidence=Confidence.LIKELY if tie.sure else Confidence.POSSIBLE,
        next_steps=words.steps_of(tie),
        evidence=tuple(words.cite_tie(one) for one in ours[: words.MOST_CITED]),
    )
