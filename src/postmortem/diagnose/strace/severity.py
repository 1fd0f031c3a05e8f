"""How much a failed call explains, by how its process fared after it."""

from collections.abc import Iterable, Sequence

from postmortem.diagnose.rule import Finding
from postmortem.diagnose.strace.calls import cite_calls, subject
from postmortem.facts.syscall_logs import Fate, Logs
from postmortem.facts.syscalls import FailedCalls, Match
from postmortem.records import record, replace
from postmortem.report.model import Confidence, Evidence, Role


@record
class Weight:
    """Role and confidence of a failure, and words on what became of its process."""

    role: Role
    confidence: Confidence
    words: str
    survived: bool = False


def weigh(
    logs: Logs,
    match: Match,
    confidence: Confidence,
    *,
    lasting: bool = False,
    root: Role = Role.ROOT,
) -> Weight:
    """Return what part a failure has.

    `lasting`: it leaves harm behind (a file that is not whole) even where the program goes on.
    """
    if not match.target.guessed:
        return weigh_fate(logs.fate(match), confidence, lasting=lasting, root=root)
    weight = weigh_fate(logs.fate(match), _at_most_likely(confidence), lasting=lasting, root=root)
    words = "; which file it was is told by the order of the calls alone"
    return replace(weight, words=words + weight.words)


def weigh_fate(
    fate: Fate, confidence: Confidence, *, lasting: bool = False, root: Role = Role.ROOT
) -> Weight:
    """Return what part a failure has in what became of its process."""
    if fate is Fate.FAILED:
        return Weight(root, confidence, "")
    if fate is Fate.UNKNOWN:
        words = "; the log ends before the process does"
        return Weight(root, confidence if lasting else _at_most_likely(confidence), words)
    if fate is Fate.FAILED_LATER:
        words = "; the process failed only much later, perhaps for another reason"
        return Weight(root, confidence if lasting else Confidence.POSSIBLE, words)
    words = "; the process went on and exited with 0: it may have handled this"
    if lasting:
        return Weight(root, _at_most_likely(confidence), words, survived=True)
    return Weight(Role.CONTRIBUTING, Confidence.POSSIBLE, words, survived=True)


def worst(logs: Logs, groups: tuple[FailedCalls, ...]) -> tuple[FailedCalls, ...]:
    """Return groups with those first whose process failed soon after."""
    rank = {Fate.FAILED: 0, Fate.UNKNOWN: 1, Fate.FAILED_LATER: 2, Fate.SURVIVED: 3}
    return tuple(sorted(groups, key=lambda group: rank[logs.fate(group.matches[-1])]))


def _at_most_likely(confidence: Confidence) -> Confidence:
    return Confidence.LIKELY if confidence is Confidence.CERTAIN else confidence


def of_calls(
    logs: Logs,
    groups: Sequence[FailedCalls],
    confidence: Confidence,
    *,
    title: str,
    cause: str,
    next_steps: tuple[str, ...],
    evidence: Iterable[Evidence] = (),
    lasting: bool = False,
    root: Role = Role.ROOT,
) -> Finding:
    """Return what is found of failed calls, the first group the worst; weighed as by `weigh`.

    `evidence` comes behind the calls.
    """
    weight = weigh(logs, groups[0].matches[-1], confidence, lasting=lasting, root=root)
    return Finding(
        title=title,
        cause=cause + weight.words,
        confidence=weight.confidence,
        next_steps=next_steps,
        evidence=(*(row for one in groups[:3] for row in cite_calls(one)), *evidence),
        role=weight.role,
        survived=weight.survived,
        about=subject(groups[0]),
    )
