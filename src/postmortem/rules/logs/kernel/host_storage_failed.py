"""A disk or a file server failed on the host of the rank that failed first."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.facts.blame import Blame, Tie
from postmortem.facts.kernel_log import KernelKind
from postmortem.patterns import Pattern
from postmortem.report.model import Confidence, Role
from postmortem.rules.logs.kernel.words import MOST_CITED, cite_tie, joined, meaning, steps_of
from postmortem.rules.logs.telling import ranks_words
from postmortem.rules.names import clip
from postmortem.rules.rule import Finding, rule

_OF_FILES = Pattern(
    r"\[Errno (?:5|30|107|108|110|116|121)\]|[Ii]nput/output error|Read-only file system"
    r"|[Ss]tale file handle|Transport endpoint is not connected|Cannot send after transport"
    r"|SIGBUS|open|read|load|save|ckpt|checkpoint|shard"
)
_KINDS = (KernelKind.DISK, KernelKind.NETWORK_FS)


@rule(role=Role.CONTRIBUTING, references=("https://man7.org/linux/man-pages/man3/errno.3.html",))
def host_storage_failed(blame: Blame) -> Iterator[Finding]:
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
    first = {party.rank for party in blame.first}
    ours: list[Tie] = [
        tie for tie in blame.ties if tie.event.kind in _KINDS and first & set(tie.ranks)
    ]
    if not ours or not any(_OF_FILES.search(party.why) for party in blame.first):
        return
    tie = ours[0]
    what = f"{tie.event.device}: " if tie.event.device else ""
    host = f" on {tie.event.host}" if tie.event.host else ""
    yield Finding(
        title=clip(f"storage failed{host}: {what}{tie.event.words}", 100),
        cause=f"{meaning(tie)} {ranks_words(blame.first)} failed at a file.{joined(tie)}",
        confidence=Confidence.LIKELY if tie.sure else Confidence.POSSIBLE,
        next_steps=steps_of(tie),
        evidence=tuple(cite_tie(one) for one in ours[:MOST_CITED]),
    )
