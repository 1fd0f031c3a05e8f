"""A signal ends the process while the module is imported.

What it means
    Code that runs when a library is loaded is at fault. SIGILL: it was built for a processor
    with more than this one has. SIGKILL: somebody ended it, as a rule for memory.
How to be sure
    The core of it says which instruction: `postmortem run -- python -c 'import NAME'`.
What to do
    Install a build for this processor and this system.
"""

from pathlib import Path

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.importing import Importing
from postmortem.text import shell_word


@rule()
def import_crashed(seen: Importing) -> Findings:
    if seen.signal is None:
        return
    where = f" while {Path(seen.loading).name} was loaded" if seen.loading else ""
    cause = "Code of a library that is loaded ended the process."
    if seen.signal == "SIGILL":
        cause = "Likely an instruction that this processor does not have: a build for another one."
    elif seen.signal == "SIGKILL":
        cause = "Somebody killed it, as a rule for memory; dmesg says so."
    code = shell_word(f"import {seen.name}")
    yield Finding(
        title=f"import {seen.name} dies of {seen.signal}{where}",
        cause=cause,
        confidence=Confidence.LIKELY,
        next_steps=(
            f"postmortem run -- {shell_word(seen.python)} -c {code}   explains its core",
            "grep -m1 flags /proc/cpuinfo"
            if seen.signal == "SIGILL"
            else f"ldd {shell_word(seen.loading or seen.python)}",
        ),
        evidence=(
            Evidence("process", f"was killed by {seen.signal}"),
            *((Evidence("last loaded", seen.loading),) if seen.loading else ()),
            *(Evidence("Python's stack", one) for one in seen.stack[:3]),
        ),
        about=Subject(path=seen.loading, signal=seen.signal),
    )
