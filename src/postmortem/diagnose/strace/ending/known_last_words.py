"""A process that ended badly had written a line to standard error that is known.

What it means
    The line says what failed: no system call that failed explains the end, but the program
    itself did, on descriptor 2. Several lines are weighed: a cause before a consequence.
How to be sure
    Read the lines around it: grep -n 'write(2' LOG. strace cuts texts after 32 bytes unless it
    is started with -s 4096.
What to do
    What the signature of the line says: postmortem rules ID. Where the error that it names was
    injected by strace itself (-e inject), nothing failed but the test.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import (
    ANY_REASON,
    Confidence,
    Evidence,
    Finding,
    Findings,
    Role,
    Subject,
    rule,
)
from postmortem.diagnose.strace.calls import where, who
from postmortem.facts.last_words import LastWords
from postmortem.facts.syscall_logs import Logs
from postmortem.knowledge.messages import by_id
from postmortem.knowledge.stderr_text import errnos_in_text

_ORDER = ("root", "contributing", "cascade")


@rule("https://man7.org/linux/man-pages/man1/strace.1.html", yields_to=ANY_REASON)
def known_last_words(words: LastWords, logs: Logs) -> Findings:
    if not words.spoken:
        return  # the signatures take 30 ms to read
    known = by_id()
    said = [item for item in words.spoken if known[item.signature].role in _ORDER]
    if not said:
        return
    first = min(said, key=lambda item: _ORDER.index(known[item.signature].role))
    signature = known[first.signature]
    injected = _injected(logs, first.text)
    cause = f"{signature.cause} (postmortem rules {signature.id} says more)"
    of_it = ""
    if injected is not None:
        cause = (
            f"strace injected that {injected} itself (-e inject): not real. Of a real one: {cause}"
        )
        of_it = ", of an error that strace injected"
    yield Finding(
        title=f"{who(first.pid)} said before it ended{of_it}: {first.text.strip()}",
        role=Role(signature.role) if injected is None else Role.CONTEXT,
        confidence=Confidence.LIKELY if injected is None else Confidence.POSSIBLE,
        cause=cause,
        next_steps=signature.next_steps if injected is None else ("record it without -e inject",),
        evidence=tuple(
            Evidence(
                where(item),
                f"{who(item.pid)} ended here, and had said: {clip(item.text.strip(), 160)}",
            )
            for item in said[:5]
        ),
        about=Subject(pid=first.pid or None),
    )


def _injected(logs: Logs, text: str) -> str | None:
    """Return the error that a line names, if strace injected every failure of that kind."""
    for name in errnos_in_text(text):
        rows = [row for log in logs.logs for row in log.errors if row.errno == name]
        if rows and all(row.count == row.injected for row in rows):
            return name
    return None
