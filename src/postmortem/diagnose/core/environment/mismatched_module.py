"""A library on disk is not the one that crashed.

What it means
    The build ID in the core and that of the file with the same path differ: the file was
    rebuilt or updated since, or this is another machine or container. Its symbols would name
    wrong functions, so they are not used.
How to be sure
    Build IDs are made by the linker from the contents: different means a different build.
What to do
    Give the files of the machine that crashed with --sysroot (or the interpreter with
    --python), or analyse the core where it was written.
"""

from postmortem.diagnose.core.owners import module_name
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Topic, rule
from postmortem.facts.memory import Module, Modules
from postmortem.facts.threads import Threads
from postmortem.text import more

SHOWN = 8
"""Modules that evidence lists; the rest are counted."""


@rule("https://man7.org/linux/man-pages/man1/ld.1.html", role=Role.CONTEXT, topic=Topic.EVIDENCE)
def mismatched_module(modules: Modules, threads: Threads) -> Findings:
    wrong = [module for module in modules if module.status == "mismatch"]
    if not wrong:
        return
    crashed = threads.crashed
    paths = {module.path for module in wrong}
    there = [
        frame
        for thread in (threads.items)
        for frame in thread.frames
        if frame.kind == "native" and frame.module in paths
    ]
    nameless = bool(there) and all(frame.function == "??" for frame in there)
    on_stack = {frame.module for frame in crashed.frames} if crashed is not None else set()
    wrong.sort(key=lambda module: module.path not in on_stack)
    evidence = [
        Evidence(
            f"module {module.path}",
            _difference(module) + (", on the crashed stack" if module.path in on_stack else ""),
        )
        for module in wrong[:SHOWN]
    ]
    if len(wrong) > SHOWN:
        evidence.append(Evidence("modules", f"{len(wrong) - SHOWN} more differ"))
    others = more(len(wrong) - 1)
    who = module_name(wrong[0].path) + others
    yield Finding(
        title=(
            f"{who} on disk: not the build that crashed"
            + ("; frames there have no names" if nameless else "")
        ),
        cause="the files were rebuilt or updated after the crash, or the core comes from another "
        "machine or container",
        confidence=Confidence.CERTAIN
        if all(module.build_id and module.disk_build_id for module in wrong)
        else Confidence.LIKELY,
        next_steps=(
            "analyse the core where it was written, or give that machine's files: "
            "postmortem core CORE --sysroot DIR",
            "for the interpreter itself: --python with the one that crashed",
        ),
        evidence=tuple(evidence),
    )


def _difference(module: Module) -> str:
    if module.build_id is None and module.disk_build_id is None:
        return f"what was mapped of it differs from {module.disk_path or module.path}"
    return (
        f"build ID {module.build_id or 'unknown'} in the core, "
        f"{module.disk_build_id or 'unknown'} in {module.disk_path or module.path}"
    )
