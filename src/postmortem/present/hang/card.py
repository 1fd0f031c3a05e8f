"""What a look at live processes puts on its card: the line of whom the others wait for."""

from postmortem.diagnose.hang.holding import WAITS
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.facts.live import LiveJob
from postmortem.facts.threads import Thread, is_own, own_frames
from postmortem.present.circle_places import circle_places
from postmortem.report.card import Highlights, Place

_MOST_APART = 2


def hang_highlights(job: LiveJob, blame: Attribution) -> Highlights:
    """Return where the process stands that holds up the others, or the only one, or all."""
    ranks = job.ranks()
    if not blame.first and blame.candidates and len(job.stacks) > 1:
        told = sorted(job.stacks, key=lambda one: (one.doing in WAITS, one.members[0].rank or 0))
        return Highlights(places=tuple(p for one in told[:_MOST_APART] for p in _place(one.thread)))
    process = job.process(blame.first[0].label) if blame.first else None
    if process is None and ranks and (len(ranks) == 1 or len(job.stacks) == 1):
        process = ranks[0]
    stuck = circle_places(process.threads) if process is not None else ()
    if stuck:
        return Highlights(places=stuck)
    thread = process.main_thread if process is not None else None
    hot = job.hot_path(process.pid) if process is not None else None
    if hot is not None and hot.own.frame.file and is_own(hot.own.frame.file):
        inner = hot.own.frame
        return Highlights(places=(Place(inner.function, inner.file, inner.line),))
    return Highlights(places=() if thread is None else _place(thread))


def _place(thread: Thread) -> tuple[Place, ...]:
    """Return the innermost line of the user's own code, if there is one."""
    frame = next((f for f in own_frames(thread) if f.file), None)
    if frame is None or (frame.kind == "python" and not is_own(frame.file)):
        return ()
    return (Place(frame.function, frame.file, frame.line),)
