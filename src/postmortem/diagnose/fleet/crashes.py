"""Cores of many nodes are some few crashes.

What it means
    Cores with one signature stopped in the same calls for the same reason: one of them tells
    it all. Which of several crashes came first is told by the triage of what was collected.
How to be sure
    `postmortem core` on the slim core that was fetched.
What to do
    Begin with the crash of the fewest ranks: the others are often its victims.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.fleet import Fleet
from postmortem.facts.host_names import short
from postmortem.text import counted, shell_word

_MOST = 12


@rule()
def crashes(seen: Fleet) -> Findings:
    rows = sorted(seen.part.crashes, key=lambda one: (one.count, one.hash))
    kept = {name: file for name, file, _ in seen.kept}
    for one in rows[:_MOST]:
        node, path = one.example
        file = kept.get(one.hash)
        yield Finding(
            title=f"{clip(one.summary, 80)}: {counted(one.count, 'core')} on {short(one.nodes, 2)}",
            cause=f"signature {one.hash}"
            + (": cores with the same one stopped in the same calls" if one.count > 1 else ""),
            confidence=Confidence.LIKELY,
            next_steps=(
                f"postmortem core {shell_word(file)}"
                if file is not None
                else f"postmortem core {shell_word(path)}   on {node}",
            ),
            evidence=(Evidence(f"{node}:{path}", f"signature {one.hash}"),),
            about=Subject(host=node, path=path),
        )
