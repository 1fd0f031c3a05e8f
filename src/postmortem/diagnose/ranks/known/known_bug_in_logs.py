"""The logs show a bug of a library that its developers know.

What it means
    The version that the logs name has a documented bug, and what that bug does is seen: words
    of an error, functions on a stack, a signal, a setting. It may be why the rank that is told
    of failed; it does not say which rank that is.
How to be sure
    Compare with the report that is referred to, and run once with the version that has the fix,
    or with the work-around.
What to do
    What the record says: postmortem rules ID shows it, where ID is named in the cause.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.diagnose.rule import Findings, Role, rule
from postmortem.facts.nccl import Nccl
from postmortem.facts.rank_logs import RankLogs
from postmortem.facts.versions import Versions


@rule(
    "https://github.com/NVIDIA/nccl/issues",
    "https://github.com/pytorch/pytorch/issues",
    role=Role.CONTRIBUTING,
)
def known_bug_in_logs(
    blame: Attribution, logs: RankLogs, versions: Versions | None, nccl: Nccl | None
) -> Findings:
    if blame.how is CauseKind.NOTHING:
        return  # what is printed while a job goes on, or has gone well, explains nothing
    from postmortem.diagnose.known_bugs import find_bugs
    from postmortem.diagnose.ranks.sight import sight_of

    known = versions or Versions()
    yield from find_bugs(known, sight_of(logs, nccl, known))
