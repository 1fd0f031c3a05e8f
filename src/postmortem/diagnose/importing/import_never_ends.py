"""The import took longer than it was given, and was ended.

What it means
    Code that runs at import waits: for a lock, a file system that does not answer, the
    network, a compiler; or there is much to load from a slow disk.
How to be sure
    Give it more time; if the stack is the same, it waits.
What to do
    Look at the innermost line of the stack.
"""

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.importing import Importing


@rule()
def import_never_ends(seen: Importing) -> Findings:
    if seen.timed_out is None:
        return
    where = f", at {seen.stack[0]}" if seen.stack else ""
    yield Finding(
        title=f"import {seen.name} did not end within {seen.timed_out:g} s{where}",
        cause=f"It was still importing when its time was over{where}.",
        confidence=Confidence.LIKELY,
        next_steps=(f"postmortem import {seen.name} --timeout {seen.timed_out * 4:g}",),
        evidence=tuple(Evidence("Python's stack", one) for one in seen.stack[:6])
        or (Evidence("process", f"ran for {seen.seconds:.1f} s"),),
    )
