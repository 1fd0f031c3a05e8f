"""Two OpenMP runtimes were started in one process, and the second one stopped it.

What it means
    Intel's and LLVM's OpenMP allow one copy of themselves in a process. Packages bring copies
    of their own (PyTorch, MKL, scikit-learn, conda's and pip's builds mixed); the second one to
    start finds the first, prints "OMP: Error #15", and aborts.
How to be sure
    The function that registers the runtime stands under its abort. Which files they are is in
    the list of modules.
What to do
    Install the packages from one source. KMP_DUPLICATE_LIB_OK=TRUE lets both run, at the risk
    of wrong results: a test, no cure.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, module_name, module_owner
from postmortem.diagnose.names import bare
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.memory import Modules
from postmortem.facts.threads import Thread

_WITHIN = 12


@rule("https://github.com/joblib/threadpoolctl/blob/master/multiple_openmp.md")
def openmp_conflict(kind: FaultKind, crashed: Thread | None, modules: Modules) -> Findings:
    if crashed is None or kind is not FaultKind.ABORT:
        return
    names = [bare(frame.function) for frame in crashed.frames[:_WITHIN]]
    stops = next((i for i, name in enumerate(names) if name == "__kmp_abort_process"), None)
    if stops is None:
        return
    registers = next((i for i, name in enumerate(names) if "kmp_register_library" in name), None)
    found = [m.path for m in modules if module_owner(m.path) is Owner.OPENMP]
    evidence = [cite_frame(crashed, stops if registers is None else registers)]
    evidence += [Evidence("OpenMP runtime", path) for path in found[:4]]
    evidence.extend(cite_python(crashed))
    if registers is None:
        yield Finding(
            title="the OpenMP runtime stopped the process with an error of its own",
            cause="OpenMP found something that it cannot go on with and printed why",
            confidence=Confidence.LIKELY,
            next_steps=('read the line "OMP: Error #…" on standard error',),
            evidence=tuple(evidence),
        )
        return
    both = f" ({', '.join(dict.fromkeys(module_name(path) for path in found))})" if found else ""
    yield Finding(
        title=f"a second OpenMP runtime was started in the process: OMP error 15{both}",
        cause="an OpenMP runtime met another copy that was already at work in this process, and "
        "stopped it: packages were installed that bring runtimes of their own",
        confidence=Confidence.LIKELY,
        next_steps=(
            "install all packages from one source (pip or conda, not both), in a fresh environment",
            "python -m threadpoolctl -i torch numpy sklearn : shows which package brings which",
            "KMP_DUPLICATE_LIB_OK=TRUE lets both run and may give wrong results: only as a test",
        ),
        evidence=tuple(evidence),
    )
