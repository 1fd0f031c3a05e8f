"""The name of the master host cannot be resolved.

What it means
    The job's store is reached by a host name, and this host does not know it. torchrun
    publishes the name of the first host to the others, whatever address was typed.
How to be sure
    The resolver says so: Name or service not known, gai error.
What to do
    Use an address, or make the name known on all hosts.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.causes import CouldNotStart
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/elastic/rendezvous.html")
def master_name_unknown(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, CouldNotStart) or cause.fault is not StartupFault.NAME:
        return
    host = f": {clip(cause.host, 60)}" if cause.host else ""
    yield Finding(
        title=clip(f"the master's host name cannot be resolved{host}", 100),
        cause="no name service of this host knows it, nor does its /etc/hosts",
        confidence=Confidence.LIKELY,
        next_steps=(
            f"getent hosts {cause.host or 'NAME'}  on each host shows who knows the name",
            "give an address: torchrun --rdzv-endpoint 10.0.0.1:29500, and --local-addr on "
            "the first host",
        ),
        evidence=cite(blame),
    )
