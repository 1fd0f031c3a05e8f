"""All ranks of this node wait in the same collective.

What it means
    Nobody of this node holds the others up. Whoever they wait for runs on another node; or,
    where all ranks of the job are here, the collective itself does not get on: the network
    between them, or ranks that called it with another shape, group or order.
How to be sure
    Run the same command on the other nodes: there, one stands elsewhere. The flight recorder
    (TORCH_NCCL_TRACE_BUFFER_SIZE) tells who called what.
What to do
    Put the JSON of all nodes (-o NODE.json) into one folder, and give that to postmortem logs.
"""

from postmortem.diagnose.hang.live_waits import place_words
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.live import LiveJob
from postmortem.facts.stackdumps import Doing


@rule("https://docs.pytorch.org/docs/stable/distributed.html", role=Role.CONTEXT)
def all_wait_together(job: LiveJob) -> Findings:
    ranks = job.ranks()
    if len(job.stacks) != 1 or job.stacks.items[0].doing is not Doing.COLLECTIVE:
        return
    if any(one.goes_on for one in job.motions) or not ranks:
        return
    if ranks[0].rank is None:
        yield from _nameless(job)
        return
    first = job.stacks.items[0]
    unread = [one.label for one in ranks if one.label not in {m.label for m in first.members}]
    if unread:
        yield _unread(unread, len(first.members), place_words(first.thread, most=1))
        return
    size = ranks[0].world_size
    elsewhere = size is not None and size > len(ranks)
    where = place_words(first.thread, most=1)
    title = (
        f"all {len(ranks)} ranks here wait for a rank on another node, at {where}"
        if elsewhere
        else f"all ranks wait in the same collective, at {where}"
    )
    yield Finding(
        title=title,
        cause=f"{len(ranks)} of {size or '?'} ranks are on this node, and none stands elsewhere"
        + ("" if elsewhere else "; the network, or calls that do not match, keep it from ending"),
        confidence=Confidence.LIKELY if elsewhere and job.motions else Confidence.POSSIBLE,
        next_steps=(
            "run postmortem hang on every node with -o NODE.json, then: postmortem logs *.json"
            if elsewhere
            else "compare what the ranks called: TORCH_NCCL_TRACE_BUFFER_SIZE=2000, and postmortem "
            "logs on the flight recorder's dumps",
        ),
        evidence=tuple(Evidence(m.where, m.label) for m in first.members[:4]),
    )


def _nameless(job: LiveJob) -> Findings:
    """Yield that processes wait together of which nobody knows how many there should be."""
    first, ranks = job.stacks.items[0], job.ranks()
    if not job.motions or len(first.members) != len(ranks):
        return
    known = {one.pid for one in job.processes}
    peers = {pid for one in ranks for fd in one.descriptors for pid in fd.peers} - known
    where = place_words(first.thread, most=1)
    others = ", ".join(map(str, sorted(peers)[:4]))
    there = f"; pid {others} has connections with them, and was not asked for" if peers else ""
    many = f"all {len(ranks)} processes wait" if len(ranks) > 1 else f"{ranks[0].label} waits"
    pids = " ".join(map(str, sorted({one.pid for one in ranks} | peers)[:64]))
    yield Finding(
        title=f"{many} in a collective, at {where}: who has not come is none of these",
        cause=f"none of them stands elsewhere, and how many there should be is not known{there}",
        confidence=Confidence.POSSIBLE,
        next_steps=(f"postmortem hang {pids} : with all processes of the job, on all its nodes",),
        evidence=tuple(Evidence(m.where, m.label) for m in first.members[:4]),
    )


def _unread(labels: list[str], others: int, place: str) -> Finding:
    who = ", ".join(labels[:4])
    return Finding(
        title=f"{who} could not be read; the other {others} ranks wait at {place}",
        cause=f"the ranks that could be read wait in one collective; {who} may stand elsewhere",
        confidence=Confidence.POSSIBLE,
        next_steps=("see the problems below for what keeps its stack from being read",),
        evidence=tuple(Evidence(label, "no stack was read") for label in labels[:4]),
    )
