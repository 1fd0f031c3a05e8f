"""Who came to a collective when the others had given up, by the clock of its own lines."""

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import NamedBy
from postmortem.diagnose.ranks.causes import NamedMissing
from postmortem.diagnose.ranks.deciding.case import Case, cited


def came_late(case: Case) -> Attribution | None:
    """Return the one rank that was busy for as long as others waited, and then found peers gone.

    Had it come in time, nobody would have given up.
    """
    errors = [(s, f) for s in case.about_peers() for f in s.about_peers]
    waits = [found for _, f in errors if (found := f.first_said.match("peer-waited")) is not None]
    longest = max((int(found["ms"]) / 1000 for found in waits), default=0.0)
    enough = thresholds.OF_THE_WAIT * longest
    late = [(s, f, f.paused) for s, f in errors if f.paused and f.paused.seconds >= enough > 0]
    if len(late) != 1:
        return None
    state, failure, pause = late[0]
    party = state.party("it was busy while others waited", failure)
    said = f"nothing for {pause.seconds:.0f} s, others waited {longest:g} s; then: "
    shown = pause.line.where, said + clip(pause.line.text, 200)
    cause = NamedMissing(NamedBy.PAUSE)
    return Attribution(cause, (party,), evidence=(shown, *cited((party,))))
