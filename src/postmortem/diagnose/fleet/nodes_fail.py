"""The report of one or more nodes names a failure.

What it means
    The same command ran on every node; these found something, and say what. Nodes that say the
    same, numbers apart, are told together.
How to be sure
    Run the command on one of the nodes named.
What to do
    What that node's report says; where few of many fail, leave them out meanwhile.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.fleet import Fleet
from postmortem.facts.host_names import short
from postmortem.text import counted

_MOST = 12


@rule()
def nodes_fail(seen: Fleet) -> Findings:
    failed = [one for one in seen.part.groups if one.outcome == "failed"]
    failed.sort(key=lambda one: (-len(one.nodes), one.words))
    for one in failed[:_MOST]:
        who = short(one.nodes)
        yield Finding(
            title=f"{clip(who, 40)}: {one.verdict}"[:400],
            cause=f"{counted(len(one.nodes), 'node')} of {seen.asked} ({who}): {one.verdict}",
            confidence=Confidence.LIKELY,
            next_steps=(
                f"postmortem {seen.command} on {one.nodes[0]}   shows all of its report",
                *_without(seen, one.nodes),
            ),
            evidence=tuple(Evidence(node, one.verdict) for node in one.nodes[:4]),
            about=Subject(host=one.nodes[0]),
        )


def _without(seen: Fleet, nodes: tuple[str, ...]) -> tuple[str, ...]:
    if seen.engine != "srun" or 2 * len(nodes) >= seen.asked:
        return ()
    return (f"leave them out meanwhile: sbatch --exclude={','.join(nodes[:32])}",)
