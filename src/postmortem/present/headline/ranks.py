"""What logs of many ranks say first."""

from collections.abc import Sequence

from postmortem.diagnose.jam.jam import Jam, Sign
from postmortem.diagnose.jam.words import holding_up, ranks_and
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.diagnose.ranks.causes import Raised
from postmortem.diagnose.ranks.phrases import at_frame, ranks_words
from postmortem.facts.confidence import Confidence
from postmortem.facts.last_lines import LastLine
from postmortem.present.headline.by_cause import meaning_of
from postmortem.present.headline.grammar import doubt
from postmortem.present.ranks.attempts import attempts_said
from postmortem.present.ranks.ended import how_it_ended, survived
from postmortem.present.ranks.view import RankLogsView
from postmortem.report.model import Diagnosis, Role
from postmortem.text import more


def headline(view: RankLogsView, best: Diagnosis | None, *, placed: bool = True) -> str:
    """Return who failed first and of what, and what failed beside it.

    Where it is `placed` the line of code stands behind the exception.
    """
    told = _conclusion(view, best, placed=placed)
    told += (
        _odd_said(view)
        + _also_said(view.blame)
        + (f"; later it was stopped: {clip(view.blame.then, 140)}" if view.blame.then else "")
        + (f"; in {view.logs.run}" if view.logs.run and view.blame.first else "")
        + attempts_said(view.attempts)
    )
    return told + _earlier_said(view.logs.earlier, told)


def _odd_said(view: RankLogsView) -> str:
    """Return which version the culprit, or one who may be it, has alone."""
    odd = view.logs.odd_version
    blamed = {one.rank for one in (*view.blame.first, *view.blame.candidates)}
    return f"; {odd.words}" if odd is not None and odd.rank in blamed else ""


def _earlier_said(earlier: Sequence[LastLine], told: str) -> str:
    """Return how runs ended that stand before the one which is judged, unless that is told."""
    if not earlier or (len(earlier) == 1 and earlier[0].text in told):
        return ""
    first = earlier[0]
    with_line = f"with line {first.line:,}: {clip(first.text, 100)}"
    if len(earlier) == 1:
        return f"; an earlier run ended {with_line}"
    newest = "" if first.text in told else f", the newest {with_line}"
    return f"; {len(earlier)} earlier runs ended badly{newest}"


def _also_said(blame: Attribution) -> str:
    if not blame.also:
        return ""
    first = blame.also[0]
    others = more(len(blame.also) - 1, " (and {} more)")
    return f"; {first.words} failed by itself too: {clip(first.why, 120)}{others}"


def _conclusion(view: RankLogsView, best: Diagnosis | None, *, placed: bool) -> str:
    blame = view.blame
    if best is None:
        if view.attempts.recovered:
            return "the job recovered"
        if blame.first:  # no rule has words for it
            return f"{ranks_words(blame.first)} failed first: {clip(blame.first[0].why, 200)}"
        handled = [f for f in view.logs.failures if f.kind != "ignored"]
        if handled:
            return survived(view.logs, handled)
        return how_it_ended(view.logs)
    if best.role is Role.CONTEXT and view.logs.writers and not best.verdict:
        return f"{how_it_ended(view.logs)}; {best.title}"
    if blame.jam is not None and blame.how is CauseKind.RECORDED and best.role is Role.ROOT:
        return _jam_verdict(blame, blame.jam)
    if blame.first and blame.how is CauseKind.EVERY_RANK:
        failure = blame.first[0].failure
        means = meaning_of(failure)
        words = clip(failure.words if failure is not None else blame.first[0].why, 200)
        at = at_frame(failure) if placed else ""
        said = f"{means}: {best.lead}" if means else best.lead
        return f"{said} raised {words}{at}; none of them failed first"
    of_ranks = blame.how not in (CauseKind.NODE, CauseKind.MISSING)
    if blame.first and best.role is Role.ROOT and of_ranks:
        unsure = doubt(best)
        who = ranks_words(blame.first)
        if blame.how is CauseKind.OWN_EXCEPTION and blame.first[0].failure is not None:
            failure = blame.first[0].failure
            host = f" (all ranks of {blame.whole_host})" if blame.whole_host else ""
            known = meaning_of(failure)
            words = clip(failure.words, 200)
            words = f"{known}: {words}" if known else words
            if isinstance(blame.cause, Raised) and (child := blame.cause.child) is not None:
                what = "a thread of it died" if child.kind == "thread" else "its child crashed"
                words = f"{what}: {clip(child.said.words, 120)}; {words}"
            at = at_frame(failure) if placed else ""
            if _nameless(view, blame.first[0]):
                return f"{words}{at}"
            return f"{unsure}{who}{host} failed first: {words}{at}"
        it = "it" if len(blame.first) == 1 else "they"
        rest = (best.verdict or best.title)[len(best.lead) :] if best.lead else ""
        said = f"{it}{rest}" if rest else best.title
        nameless = _nameless(view, blame.first[0])
        if nameless and rest:
            said = f"the program{rest}"
        meaning = meaning_of(blame.first[0].failure)
        said += f" ({meaning})" if meaning else ""
        if blame.how is CauseKind.NUMBERS:
            of = "" if blame.first[0].rank is None else f" are of {who}"
            return f"{unsure}the first bad numbers{of}: {clip(blame.first[0].why, 200)}"
        if blame.how is CauseKind.STACK:
            if it == "they":
                return f"{unsure}{who} hold up all others{rest}"
            return f"{unsure}{who} holds up all others: {said}"
        return f"{unsure}{said}" if nameless else f"{unsure}{who} failed first: {said}"
    if blame.how is CauseKind.UNDECIDED:
        return best.verdict or f"undecided: {best.title}"
    unsure = doubt(best) if blame.how is CauseKind.MISSING else ""
    return best.verdict or f"{unsure}{best.title}"


def _nameless(view: RankLogsView, party: Suspect) -> bool:
    """Whether nothing names who failed: the one file is all that is known of it."""
    writers, alone = view.logs.writers, len(view.logs.files) == 1
    mine = [one for one in writers if one.label == party.label and party.rank is None]
    return any(len(writers) == 1 or (alone and one.shared and one.host is None) for one in mine)


def _jam_verdict(blame: Attribution, jam: Jam) -> str:
    unsure = any(one.sure is Confidence.POSSIBLE for one in jam.culprits)
    unsure_words = "if the job hangs, " if jam.sign is Sign.UNKNOWN and unsure else ""
    unsure_words = unsure_words or ("possibly " if unsure else "")
    who = (
        blame.first[0].words if len(blame.first) == 1 else ranks_and([c.rank for c in jam.culprits])
    )
    return unsure_words + clip(holding_up(jam, who), 400)
