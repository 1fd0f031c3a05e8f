"""More processes counted themselves in the store than the job has.

What it means
    The barrier of init_process_group (torch before 2.2) waits until the count is the world
    size, and misses it when it is larger. Two jobs share MASTER_ADDR and MASTER_PORT, or a
    start anew met the count of the one before.
How to be sure
    The message has both: world_size=4, worker_count=6.
What to do
    Give each job, and each start, a port of its own.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.causes import CouldNotStart
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/distributed.html#initialization")
def store_counts_too_many(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, CouldNotStart) or cause.fault is not StartupFault.TOO_MANY:
        return
    yield Finding(
        title="more processes came to the store than the job has",
        cause="the ranks waited for a count that was passed already: two jobs share one store, or "
        f"a restart met what the attempt before had left: {clip(cause.said, 300)}",
        confidence=Confidence.LIKELY,
        next_steps=(
            "ss -ltnp | grep PORT and pgrep -af python on the first host: is an older job there?",
            "another MASTER_PORT, or torchrun --rdzv-endpoint HOST:0 which takes a free one",
            "WORLD_SIZE of each process: one that is too small gives this too",
        ),
        evidence=cite(blame),
    )
