"""Not all hosts came to the rendezvous.

What it means
    Another host's torchrun never started, has another --rdzv-id or endpoint, or waits for
    another number of nodes.
How to be sure
    RendezvousTimeoutError on the hosts that waited; RendezvousClosedError on those that came
    after.
What to do
    Look at the hosts that have no log.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.causes import CouldNotStart
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/elastic/rendezvous.html")
def rendezvous_timed_out(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, CouldNotStart) or cause.fault is not StartupFault.RENDEZVOUS:
        return
    yield Finding(
        title="the rendezvous timed out: not all hosts came",
        cause="hosts waited for others that never came",
        confidence=Confidence.LIKELY,
        next_steps=(
            "make sure that torchrun runs on every host, with the same --nnodes, --rdzv-id and "
            "--rdzv-endpoint",
            "a host without any log is the one that never started: srun and the scheduler know why",
        ),
        evidence=cite(blame),
    )
