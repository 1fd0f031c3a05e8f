"""A node never came to the meeting, or left before the end.

What it means
    It was not started, it cannot reach node 0 (its own report says which stage ends it), or
    it died on the way. Nothing was tested of what it did not do.
How to be sure
    Read what the command said on that node.
What to do
    Start it there; mend what its own report names.
"""

from typing import assert_never

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.net import Lost, NetCheck, Parting
from postmortem.text import some


@rule()
def node_missing(seen: NetCheck) -> Findings:
    never = [one.number for one in seen.lost if one.how is Parting.NEVER_CAME]
    if never:
        who = f"node {never[0]}" if len(never) == 1 else f"nodes {some(never)}"
        came = len(seen.nodes)
        yield Finding(
            title=f"{who} of {seen.world} never came to node 0",
            cause=f"{came} of {seen.world} nodes came to node 0 in time; {who} did not: not "
            "started there, or on a host that does not reach it.",
            confidence=Confidence.CERTAIN,
            next_steps=(
                "read what postmortem net says on that node: it names the stage that ends it",
                "is the command started on as many nodes as --nodes says?",
            ),
            evidence=(Evidence("node 0", f"{came} of {seen.world} nodes came"),),
        )
    for one in seen.lost:
        if one.how is Parting.NEVER_CAME:
            continue
        who = f"node {one.number} ({one.host})" if one.host else f"node {one.number}"
        yield Finding(
            title=f"{who} was lost in the middle: {parting(one)}",
            cause=f"{who} took part until then, and stopped answering: {parting(one)}.",
            confidence=Confidence.CERTAIN,
            next_steps=(
                "read what postmortem net says there, and whether the host is still up",
                "dmesg -T on that host: was the process killed?",
            ),
            evidence=(Evidence(who, parting(one)),),
            about=Subject(host=one.host),
        )


def parting(lost: Lost) -> str:
    """Return ``no answer in stage pairs``."""
    match lost.how:
        case Parting.NEVER_CAME:
            return "never came"
        case Parting.SILENT:
            return f"no answer in stage {lost.stage}"
        case Parting.LEFT:
            return f"left in stage {lost.stage}"
        case Parting.REFUSED:
            return f"in stage {lost.stage} it {lost.said}"
        case _:
            assert_never(lost.how)
