"""A rank that the launcher should have is not there.

What it means
    The environment of the ranks (LOCAL_WORLD_SIZE) promises more of them on this node than
    their launcher has children. The others wait for one that has ended.
How to be sure
    `ps --ppid` of the launcher shows its children; one that is <defunct> has ended, and its
    launcher has not looked yet.
What to do
    Read the log of the missing rank: postmortem logs tells which one failed, and why.
"""

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.live import LiveJob
from postmortem.facts.rank_sets import rank_words


@rule("https://docs.pytorch.org/docs/stable/elastic/run.html")
def rank_missing(job: LiveJob) -> Findings:
    missing = job.missing_local_ranks
    if not missing:
        return
    ranks = job.ranks()
    who = f"local rank {missing[0]}" if len(missing) == 1 else f"local ranks {rank_words(missing)}"
    verb = "has" if len(missing) == 1 else "have"
    dead = f"; ended and not collected: pid {', '.join(map(str, job.zombies[:8]))}"
    yield Finding(
        title=f"{who} of this node {verb} ended, and the other ranks wait",
        cause=f"the launcher (pid {ranks[0].ppid}) has {len(ranks)} live ranks of "
        f"{len(ranks) + len(missing)}{dead if job.zombies else ''}; nothing that the others do "
        "brings it back",
        confidence=Confidence.LIKELY,
        next_steps=(
            "postmortem logs LOG...  on this job's logs: the error of the missing rank",
            f"ps --ppid {ranks[0].ppid} -o pid,stat,etime,args: which of its children are left?",
        ),
        evidence=(
            Evidence(
                f"{ranks[0].label}, pid {ranks[0].pid}",
                f"LOCAL_WORLD_SIZE promises {len(ranks) + len(missing)} ranks on this node",
            ),
        ),
    )
