"""The port of the job's store is taken.

What it means
    The first rank, or torchrun's agent, must listen on the master port; another program has
    it, often the rest of an earlier run.
How to be sure
    The message says EADDRINUSE and names the port.
What to do
    Find who has it, or take another port.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.causes import CouldNotStart
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/elastic/rendezvous.html")
def store_port_in_use(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, CouldNotStart) or cause.fault is not StartupFault.PORT_IN_USE:
        return
    port = f": {cause.port}" if cause.port else ""
    yield Finding(
        title=clip(f"the job's port is in use{port}", 100),
        cause=f"nobody could listen on the port of the job's store{port}: another process has it.",
        confidence=Confidence.LIKELY,
        next_steps=(
            "ss -ltnp  on that host shows who listens there; often it is an earlier run "
            "that still lives",
            "take a free port: torchrun --master-port PORT, or --rdzv-endpoint HOST:0 with "
            "--standalone",
        ),
        evidence=cite(blame),
    )
