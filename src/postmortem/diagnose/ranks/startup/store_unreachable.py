"""Nobody answers at the address of the job's store.

What it means
    The first rank did not start, listens on another address (its name may resolve to
    127.0.1.1), or a firewall drops packets.
How to be sure
    All that try to connect give up after the time-out; nobody says that it listens.
What to do
    Try the port by hand from another host.
"""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.cause_kinds import StartupFault
from postmortem.diagnose.ranks.causes import CouldNotStart
from postmortem.diagnose.ranks.phrases import cite
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://pytorch.org/docs/stable/elastic/rendezvous.html")
def store_unreachable(blame: Attribution) -> Findings:
    cause = blame.cause
    if not isinstance(cause, CouldNotStart) or cause.fault is not StartupFault.UNREACHABLE:
        return
    yield Finding(
        title="nobody answers at the address of the job's store",
        cause="it was not started, it listens at another address, or a firewall drops what is sent",
        confidence=Confidence.LIKELY,
        next_steps=(
            f"nc -zv {cause.host or 'HOST'} {cause.port or 'PORT'}  from each host: refused means "
            "nobody listens, silence means a firewall",
            "under torchrun leave init_method out: its agent makes the store, rank 0 makes none",
            "getent hosts $(hostname)  on the first host: 127.0.1.1 there hides its store "
            "from the others",
        ),
        evidence=cite(blame),
    )
