"""A node gave no report: no answer in time, rubbish, or no way to it.

What it means
    Nothing is known of these nodes. In a job that hangs, a node that answers nobody is often
    the one that all wait for; it may as well lack the program.
How to be sure
    Run the same by hand on one of them.
What to do
    Look whether the host is up, and whether postmortem is on its PATH (--remote PROGRAM).
"""

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.fleet import Fleet
from postmortem.facts.host_names import short
from postmortem.text import counted

_MOST = 8
_LOOKS = {"srun": "sinfo -N -l -n {}", "kubectl": "kubectl get pod {} -o wide"}
"""What tells whether a node is there, by engine."""


@rule(role=Role.CONTRIBUTING)
def node_silent(seen: Fleet) -> Findings:
    for found in seen.part.silent_alike[:_MOST]:
        names = tuple(one.node for one in found)
        yield Finding(
            title=f"{counted(len(names), 'node')} of {seen.asked} without a report: {short(names)}",
            cause=f"nothing is known of {short(names)}: what failed may be there",
            confidence=Confidence.CERTAIN,
            next_steps=(
                f"{_LOOKS.get(seen.engine, 'ssh {} uptime').format(names[0])}: is it up?",
                "--remote PROGRAM says what postmortem is called there; --deadline gives more time",
            ),
            evidence=tuple(Evidence(one.node, one.why) for one in found[:6]),
            about=Subject(host=names[0]),
        )
