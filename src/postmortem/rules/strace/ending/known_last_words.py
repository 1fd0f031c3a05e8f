"""A process that ended badly said why."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.facts.last_words import LastWords
from postmortem.knowledge.signatures import by_id
from postmortem.report.model import Confidence, Evidence, Role
from postmortem.rules.names import clip
from postmortem.rules.rule import Finding, rule
from postmortem.rules.strace.who import who

_ORDER = ("root", "contributing", "cascade")


@rule(
    role=Role.ROOT,
    fallback=True,
    references=("https://man7.org/linux/man-pages/man1/strace.1.html",),
)
def known_last_words(words: LastWords) -> Iterator[Finding]:
    """A process that ended badly had written a line to standard error that is known.

    What it means
        The line says what failed: no system call that failed explains the end, but the program
        itself did, on descriptor 2. Several lines are weighed: a cause before a consequence.

    How to be sure
        Read the lines around it: grep -n 'write(2' LOG. strace cuts texts after 32 bytes unless it
        is started with -s 4096.

    What to do
        What the signature of the line says: postmortem rules ID.
    """
    if not words.spoken:
        return  # the signatures take 30 ms to read
    known = by_id()
    said = [item for item in words.spoken if known[item.signature].role in _ORDER]
    if not said:
        return
    first = min(said, key=lambda item: _ORDER.index(known[item.signature].role))
    signature = known[first.signature]
    yield Finding(
        title=clip(f"{who(first.pid)} said before it ended: {first.text.strip()}", 100),
        role=Role(signature.role),
        confidence=Confidence.LIKELY,
        cause=f"{signature.cause} (postmortem rules {signature.id} says more)",
        next_steps=signature.next_steps,
        evidence=tuple(
            Evidence(
                f"{item.file.rpartition('/')[2]}:{item.line}",
                f"{who(item.pid)} ended here, and had said: {clip(item.text.strip(), 160)}",
            )
            for item in said[:5]
        ),
    )
