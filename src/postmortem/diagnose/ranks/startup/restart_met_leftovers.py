"""A job that was restarted found what its first attempt had left behind.

What it means
    Seen with torch 2.13: the processes of a restart share the store of torchrun's agent, read
    the addresses that the dead ones had put there, and cannot connect. Or the old ones still
    hold the port. So --max-restarts cannot help, whatever failed first.
How to be sure
    The first attempt worked for a while; all later ones failed at start-up, at an address that
    refuses.
What to do
    Give each attempt a store of its own, then mend what failed first.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attempts
from postmortem.diagnose.ranks.causes import CouldNotStart
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule

_STALE = frozenset({"connection-refused", "gloo-connectfullmesh", "error-port-in-use"})


@rule("https://docs.pytorch.org/docs/stable/elastic/run.html", role=Role.CONTRIBUTING)
def restart_met_leftovers(attempts: Attempts) -> Findings:
    last = attempts.blames[-1]
    cause = last.cause
    if not isinstance(cause, CouldNotStart) or not _STALE.intersection(cause.known):
        return
    started = [not isinstance(blame.cause, CouldNotStart) for blame in attempts.blames]
    if not any(started):
        return
    count = [*reversed(started)].index(True)
    told_last = attempts.told == len(started) - 1
    noun = "restart" if count == 1 else f"{count} restarts"
    yield Finding(
        title=f"the {noun} failed at start-up: they met what the first attempt had left",
        cause=f"After attempt {len(started) - count} the job was started again, and failed "
        f"before it could work: {clip(cause.said, 300)}.",
        confidence=Confidence.LIKELY,
        role=Role.ROOT if told_last else None,  # what failed first is not known
        explains=("peers_unreachable",) if told_last else (),
        next_steps=(
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 gives each attempt a new store",
            "and make sure that the first attempt's processes are gone: ss -ltnp, pgrep -af python",
        ),
        evidence=tuple(Evidence(where.rsplit("/", 1)[-1], what) for where, what in last.evidence)
        or (Evidence("logs", clip(cause.said, 300)),),
    )
