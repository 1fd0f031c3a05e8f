"""What logs of many ranks put on their card: the line that raised, and who else is in it."""

from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.diagnose.ranks.phrases import own_frame, ranks_words, shown_failure
from postmortem.facts.rank_logs import LogFailure
from postmortem.facts.threads import is_own
from postmortem.present.headline.ranks import headline
from postmortem.present.ranks.view import RankLogsView
from postmortem.report.card import Highlights, Place
from postmortem.report.model import Diagnosis

_SHOWN = frozenset(
    {CauseKind.OWN_EXCEPTION, CauseKind.EVERY_RANK, CauseKind.CRASH, CauseKind.THREAD}
)
_MOST_NAMED = 64


def ranks_highlights(view: RankLogsView, best: Diagnosis | None) -> Highlights:
    """Return the line of the user's own that failed first, and the count of the victims."""
    place = _place(shown_failure(view.blame)) if view.blame.how in _SHOWN else None
    return Highlights(
        places=() if place is None else (place,),
        headline=headline(view, best, placed=place is None),
        rest=_victims(view),
        excerpt=view.excerpt,
    )


def _place(failure: LogFailure | None) -> Place | None:
    frame = own_frame(failure)
    if frame is None or not is_own(frame.file):
        return None
    source = ((frame.line, frame.code),) if frame.code else ()
    return Place(frame.function or "<module>", frame.file, frame.line, source=source)


def _victims(view: RankLogsView) -> str | None:
    victims = view.blame.victims
    if not victims:
        return None
    few = len(victims) <= _MOST_NAMED
    who = ranks_words(victims) if few else f"{len(victims)} other ranks"
    return f"{who} {'is a victim' if len(victims) == 1 else 'are victims'}"
