"""Who holds up a live job, and whose own processes may be the reason."""

from collections.abc import Iterator, Sequence

from postmortem.diagnose import rule
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.signals.deadlock import deadlock
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import NothingFailed
from postmortem.diagnose.ranks.deciding.hung import stands_elsewhere
from postmortem.facts.live import LiveJob, LiveProcess
from postmortem.facts.stackdumps import Doing, StackClasses
from postmortem.facts.threads import Threads
from postmortem.records import replace
from postmortem.report.model import Diagnosis, Evidence, Role, Subject

WAITS = (Doing.COLLECTIVE, Doing.DEVICE)


def progresses(job: LiveJob) -> bool:
    """Return whether ranks that wait in a collective came out of it, or all that there are."""
    if not job.motions:
        return False
    waiting = {m.label for one in job.stacks if one.doing in WAITS for m in one.members}
    seen = [one for one in job.motions if not waiting or one.label in waiting]
    return bool(seen) and all(one.goes_on for one in seen)


def holder_up(job: LiveJob) -> Attribution:
    """Return who holds up the others; nobody does where those who wait go on."""
    nobody = Attribution(NothingFailed())
    if progresses(job):
        return nobody
    world = next((one.world_size for one in job.ranks()), None) or 0
    return stands_elsewhere(job.stacks, world=world) or nobody


def worth_following(ranks: Sequence[LiveProcess], found: StackClasses) -> tuple[int, ...]:
    """Return the ranks whose own children may be the reason: those that wait for no other rank."""
    waiting = {m.label for one in found if one.doing in WAITS for m in one.members}
    return tuple(one.pid for one in ranks if one.label not in waiting)[:8]


def deadlocks(job: LiveJob, blame: Attribution) -> Iterator[Diagnosis]:
    """Yield the circles of locks inside of processes, as a core's report has them."""
    suspects = {party.label for party in (*blame.first, *blame.candidates)}
    for one in job.processes:
        outcome = rule.run((deadlock,), {FaultKind: FaultKind.SNAPSHOT, Threads: one.threads})
        for found in outcome.diagnoses:
            role = found.role
            if suspects and one.label not in suspects and one.works_for is None:
                role = Role.CONTRIBUTING
            yield replace(
                found,
                title=f"{one.label}: {found.title}",
                about=Subject(pid=one.pid, rank=one.rank),
                role=role,
                evidence=tuple(
                    Evidence(f"{one.label} {row.where}", row.what) for row in found.evidence
                ),
            )
