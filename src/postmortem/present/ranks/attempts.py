"""What the report says of a job that was started more than once."""

from typing import assert_never

from postmortem.diagnose.ranks import causes
from postmortem.diagnose.ranks.attribution import Attempts, Attribution
from postmortem.diagnose.ranks.batch_jobs import names
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.diagnose.ranks.causes import Cause
from postmortem.facts.rank_sets import rank_words
from postmortem.patterns import Pattern
from postmortem.report.contract import fill
from postmortem.report.contract import logs as shapes
from postmortem.text import cut

_ROWS_SHOWN = 6
_LONGEST = 200
_SOURCE = Pattern(r"\[/[\w./+-]+:\d+\] ")
"""Where in its own sources a library raised, which helps nobody here."""


def attempts_said(attempts: Attempts) -> str:
    """Return how the verdict goes on: nothing where the job was started once."""
    count = len(attempts.blames)
    if count < 2:
        return ""
    if attempts.recovered:
        failed = [
            i for i, blame in enumerate(attempts.blames) if blame.how is not CauseKind.NOTHING
        ]
        first = attempt_words(attempts.blames[failed[0]])
        return f": attempt {failed[0] + 1} of {count} failed ({first}), the last one did not"
    if attempts.blame.how is CauseKind.NOTHING:
        return f"; it was started {count} times"
    if attempts.alike == count:
        return f"; all {count} attempts failed the same way"
    where = f"attempt {attempts.told + 1} of {count}"
    if attempts.alike > 1:
        return f"; {where}, {attempts.alike} of them failed the same way"
    if attempts.told + 1 < count:
        last = attempt_words(attempts.blames[-1], 90)
        return f"; {where}, the last one failed before it got so far ({last})"
    others = [
        i for i, blame in enumerate(attempts.blames[:-1]) if blame.how is not CauseKind.NOTHING
    ]
    if not others:
        return f"; {where}"
    before = attempt_words(attempts.blames[others[0]])
    return f"; {where}, attempt {others[0] + 1} failed otherwise: {before}"


def attempt_words(blame: Attribution, longest: int = _LONGEST) -> str:
    """Return in few words what was decided of an attempt."""
    if blame.how is CauseKind.NOTHING:
        return "no failure"
    if not blame.first:
        words = _cause_words(blame.cause).split("\n", 1)[0]
        said = f"{blame.how.value}: {words}" if words else blame.how.value
        return cut(_SOURCE.sub("", said), longest)
    ranks = [party.rank for party in blame.first if party.rank is not None]
    party = blame.first[0]
    who = party.words if len(blame.first) == 1 else f"ranks {rank_words(ranks)}"
    why = party.failure.words if party.failure is not None else party.why
    return cut(f"{who}: {why}", longest)


def _cause_words(cause: Cause) -> str:
    """Return what is known beside the kind of a cause where nobody is singled out."""
    match cause:
        case causes.CouldNotStart(said=said) | causes.NeverJoined(said=said):
            return said
        case causes.StoppedFromOutside(said=said):
            return said
        case causes.HostFailed(host):
            return host
        case causes.JobsFailed(jobs):
            return f"{names(jobs)} {jobs[0].how}"
        case causes.Undecided(doubt):
            return doubt.value
        case causes.UnnamedProcessEnded(end):
            return f"unnamed: {end.words}"
        case causes.ProcessEnded(end):
            return end.words
        case causes.SaidLast(said=said) | causes.NeverANumber(said=said):
            return said
        case causes.OtherText(kind):
            return kind
        case causes.SeenByKernel(tie):
            return tie.why
        case (
            causes.CalledOther(most=most)
            | causes.WaitsElsewhere(most=most)
            | causes.StandsElsewhere(most=most)
        ):
            return most
        case causes.NamedMissing(by):
            return by.value
        case (
            causes.Raised()
            | causes.EveryRankRaised()
            | causes.ChildKilled()
            | causes.Crashed()
            | causes.ExitedSilently()
            | causes.ThreadDied()
            | causes.NumbersWentBad()
            | causes.SilentAlone()
            | causes.HoldsUp()
            | causes.LeftEarly()
            | causes.NothingFailed()
        ):
            return ""
        case never:
            assert_never(never)


def attempt_rows(attempts: Attempts, *, verbose: bool) -> list[tuple[str, str]]:
    """Return a row for each attempt; none where the job was started once."""
    if len(attempts.blames) < 2:
        return []
    rows = [(f"attempt {i + 1}", attempt_words(blame)) for i, blame in enumerate(attempts.blames)]
    if verbose or len(rows) <= _ROWS_SHOWN:
        return rows
    return [*rows[:2], ("…", f"{len(rows) - 4} more: -v shows them"), *rows[-2:]]


def attempts_body(attempts: Attempts) -> list[dict[str, object]]:
    """Return the JSON rows: one for each attempt, from 0, as torchrun counts them."""
    return [
        fill(
            shapes.Attempt,
            attempt=i,
            decided_by=blame.how,
            ranks=sorted(p.rank for p in blame.first if p.rank is not None),
            what=attempt_words(blame),
            told=i == attempts.told,
        )
        for i, blame in enumerate(attempts.blames)
    ]
