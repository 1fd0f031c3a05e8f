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
from postmortem.facts.threads import is_own
from postmortem.text import shell_word


@rule()
def import_crashed(seen: Importing) -> Findings:
    if seen.signal is None:
        return
    loading = seen.loading if _is_loading(seen) else None
    at = next((one for one in seen.stack if is_own(one)), None)
    where = f" at {at.rpartition('/')[2]}" if at else ""
    cause = "Native code that is called while it is imported ended the process."
    if loading:
        where = f" while {Path(loading).name} was loaded"
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
            *(("grep -m1 flags /proc/cpuinfo",) if seen.signal == "SIGILL" else ()),
            *((f"ldd {shell_word(loading)}",) if loading and seen.signal != "SIGILL" else ()),
        ),
        evidence=(
            Evidence("process", f"was killed by {seen.signal}"),
            *((Evidence("last loaded", loading),) if loading else ()),
            *(Evidence("Python's stack", one) for one in seen.stack[:3]),
        ),
        about=Subject(path=loading, signal=seen.signal),
    )


def _is_loading(seen: Importing) -> bool:
    """Whether Python's own import stands innermost: another line called into what was loaded."""
    return not seen.stack or seen.stack[0].startswith("<frozen importlib")
