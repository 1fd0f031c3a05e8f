"""A GPU, or a link of it, failed under a rank.

What it means
    NVIDIA's driver wrote an Xid that stands for the hardware, not for the program; the rank's
    CUDA error is what the program saw of it.
How to be sure
    The Xid names the rank's pid or its GPU, or stands in the log of the host on which the
    rank failed with a CUDA error. Xid 13, 31 and 43 are mostly the program's own fault, and do
    not count.
What to do
    Take the host or the GPU out before the job is started again: it will fail there again.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.kernel import words
from postmortem.diagnose.ranks.kernel_matches import MatchKey
from postmortem.diagnose.ranks.phrases import ranks_words
from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.facts.kernel_log import KernelKind
from postmortem.knowledge.xids import REFERENCE
from postmortem.records import replace


@rule(REFERENCE)
def gpu_failed(blame: Attribution) -> Findings:
    tie = words.decided_by(blame, KernelKind.GPU, KernelKind.FABRIC, KernelKind.PCIE)
    if tie is None:
        return
    event = tie.event
    who = ranks_words(blame.first)
    where = f" on {event.host}" if event.host else ""
    gpu = f" {event.device}" if event.device else ""
    host = f" All ranks of {blame.whole_host} failed alike." if blame.whole_host else ""
    told = words.decided(
        blame,
        tie,
        f"{who} failed with its GPU{gpu}{where}: {event.brief}",
        f"{words.meaning(tie)} The driver says: {clip(event.words, 200)}. "
        f"Of {who}: {blame.tie_said or 'no error of its own'}.{host}",
    )
    by_host = tie.by is MatchKey.HOST and told.confidence is Confidence.CERTAIN
    yield replace(told, confidence=Confidence.LIKELY) if by_host and len(blame.first) > 1 else told
