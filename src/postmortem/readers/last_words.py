"""Looks up what processes said on standard error before they ended badly."""

from collections.abc import Iterable

from postmortem.facts.last_words import LastWords, Spoken
from postmortem.facts.syscalls import Task

EACH = 3
"""Lines of one signature and process."""


def find_last_words(tasks: Iterable[Task]) -> LastWords:
    """Return the known lines of processes that a signal or a status other than 0 ended.

    Texts that strace cut (without -s it keeps 32 bytes of each) are mostly not known.
    """
    spoken: list[Spoken] = []
    for task in tasks:
        end = task.ending
        if not task.last_words or end is None or not (end.signal or end.code):
            continue
        from postmortem.readers.signatures import Signatures

        text = "".join(task.last_words).encode("utf-8", "surrogateescape")
        spoken += (
            Spoken(hit.id, hit.text, task.pid, end.file, end.line)
            for hit in Signatures.load().find(text, each=EACH)
        )
    return LastWords(tuple(spoken))
