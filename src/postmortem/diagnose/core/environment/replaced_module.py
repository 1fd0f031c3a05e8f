"""Libraries were deleted or replaced while the process ran.

What it means
    The kernel marked files as deleted that were still mapped: a package was upgraded or
    removed, or an environment was rebuilt, under a running job. What was loaded stayed as it
    was; what was imported later came from the new version, and the two may not fit together.
How to be sure
    " (deleted)" behind the name in the core's list of files. That the upgrade caused the crash
    is not said by it.
What to do
    Look at the package manager's log for that time; do not change an environment that jobs run
    from. Start the job again before you look for another cause.
"""

from postmortem.diagnose.core.owners import module_name
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Topic, rule
from postmortem.facts.memory import Module, Modules
from postmortem.facts.threads import Thread
from postmortem.patterns import Pattern
from postmortem.text import more

_SHOWN = 6
# Compilers at run time (Triton, numba, inductor) load what they then delete; that is in order.
_PASSING = Pattern(r"^(/tmp|/var/tmp|/dev|/run|/proc)(/|$)|/\.?cache/|/\.nfs")
# Memory with a name, that processes share or that code is made in (.NET, BEAM): never a file.
_NO_FILE = Pattern(r"^/(memfd:|SYSV|anon_hugepage|\[aio\])")


@rule("https://man7.org/linux/man-pages/man5/core.5.html", role=Role.CONTEXT, topic=Topic.EVIDENCE)
def replaced_module(modules: Modules, crashed: Thread | None) -> Findings:
    on_stack = {frame.module for frame in crashed.frames} if crashed is not None else set()
    gone = [m for m in modules if m.deleted and _matters(m, m.path in on_stack)]
    if not gone:
        return
    gone.sort(key=lambda module: module.path not in on_stack)
    names = module_name(gone[0].path) + more(len(gone) - 1)
    were = "was" if len(gone) == 1 else "were"
    evidence = [
        Evidence(
            f"module {module.path}",
            "marked as deleted in the core"
            + (", on the crashed stack" if module.path in on_stack else ""),
        )
        for module in gone[:_SHOWN]
    ]
    yield Finding(
        title=f"{names} {were} deleted or replaced while the process ran",
        cause="the environment changed under the running process (what it had loaded stayed, what "
        "it loaded later came from the new files), or the program itself removed what it had "
        "loaded, which is in order",
        confidence=Confidence.CERTAIN,
        next_steps=(
            "was a package upgraded then? pip and conda leave times: ls -ld --time-style=full-iso "
            "site-packages/*.dist-info",
            "run the job again in the environment as it is now, before looking further",
        ),
        evidence=tuple(evidence),
    )


def _matters(module: Module, is_on_stack: bool) -> bool:
    if _NO_FILE.match(module.path):
        return False
    return is_on_stack or _PASSING.search(module.path) is None
