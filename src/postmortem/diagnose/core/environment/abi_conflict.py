"""Libraries that do not fit together are in one process.

What it means
    Two copies of a library that should exist once (the C++ runtime, OpenMP, PyTorch itself),
    or a module that needs a newer C++ runtime than the one that is loaded. Objects made by one
    copy and destroyed by the other crash; two OpenMP runtimes fight over threads.
How to be sure
    Both copies are among the mapped files. Many processes live with two OpenMP libraries, so
    this is said only when the crash is in such a library or the heap is damaged, and never as
    the cause.
What to do
    Install all packages from one source (pip or conda, not both); remove copies from
    LD_LIBRARY_PATH and LD_PRELOAD.
"""

from collections import defaultdict
from pathlib import PurePosixPath

from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.core.stacks import is_malloc
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.crash import AbortMessage
from postmortem.facts.memory import BinaryFacts, Module, Modules
from postmortem.facts.threads import Thread
from postmortem.patterns import Pattern

# Libraries of which a process should have one. Wheels rename their copies (auditwheel adds a hash:
# libgomp-a34b3233.so.1.0.0), so names are compared up to that.
_SINGLE = Pattern(
    r"^(lib(?:stdc\+\+|gomp|iomp5|omp|c10|torch_cpu|torch_cuda|nccl|protobuf|python[\d.]+))"
    r"(?:-[0-9a-f]{8})?\.so"
)
_OPENMP = {"libgomp", "libiomp5", "libomp"}
_RUNTIME = Pattern(r"libstdc\+\+\.so\.6\.0\.(\d+)")
_NEEDED = Pattern(r"GLIBCXX_3\.4\.(\d+)")


@rule(
    "https://gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html",
    "https://github.com/pytorch/pytorch/issues/2542",
    role=Role.CONTRIBUTING,
)
def abi_conflict(
    kind: FaultKind,
    modules: Modules,
    crashed: Thread | None,
    message: AbortMessage | None,
    binary: BinaryFacts | None,
) -> Findings:
    if not (kind.is_fault or kind in (FaultKind.ABORT, FaultKind.RERAISED)):
        return
    copies = _copies(modules)
    doubled = [paths for name, paths in copies.items() if _matters(name, crashed, message)]
    for paths in doubled:
        yield _finding(
            f"two copies of one library are loaded: {_pair(paths)}",
            [Evidence("modules", path) for path in paths[:4]],
        )
    old = _too_old(modules, binary)
    if binary is not None and old is not None:
        module, needed = old
        yield _finding(
            f"{file_name(binary.path)} needs GLIBCXX_3.4.{needed}, newer than the loaded runtime",
            [Evidence("module", module.path), Evidence(f"binary {binary.path}", "its versions")],
        )


def _pair(paths: list[str]) -> str:
    names = [file_name(path) for path in paths[:2]]
    if names[0] != names[1]:
        return ", ".join(names)
    return f"{names[0]} from {' and '.join(str(PurePosixPath(p).parent) for p in paths[:2])}"


def _copies(modules: Modules) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        match = _SINGLE.match(module.name)
        if match is not None and module.path not in found[match.group(1)]:
            found[match.group(1)].append(module.path)
    openmp = [path for name in sorted(_OPENMP) for path in found.pop(name, [])]
    result = {name: paths for name, paths in found.items() if len(paths) > 1}
    if len(openmp) > 1:
        result["OpenMP"] = openmp
    return result


def _matters(name: str, thread: Thread | None, message: AbortMessage | None) -> bool:
    """Return whether the crash is of the kind that two copies of this library make."""
    if thread is None:
        return False
    near = thread.frames[:16]
    if name == "OpenMP":
        return any(owner(frame) is Owner.OPENMP for frame in near)
    freed = message and message.match("heap-free-invalid", "heap-double-free")
    heap = bool(freed) or any(is_malloc(frame) for frame in near[:6])
    if name == "libstdc++":
        return heap or any(owner(frame) is Owner.CXX_RUNTIME for frame in near[:4])
    return heap or any(file_name(frame.module).startswith(name) for frame in near)


def _too_old(modules: Modules, binary: BinaryFacts | None) -> tuple[Module, int] | None:
    """Return the loaded C++ runtime and the version that it lacks, by its file's name."""
    if binary is None:
        return None
    asked = [
        int(match.group(1))
        for _, versions in binary.versions
        for version in versions
        if (match := _NEEDED.fullmatch(version))
    ]
    for module in modules:
        match = _RUNTIME.search(module.name)
        if match is not None and asked and max(asked) > int(match.group(1)):
            return module, max(asked)
    return None


def _finding(title: str, evidence: list[Evidence]) -> Finding:
    return Finding(
        title=title,
        cause="libraries of different builds meet in one process: what one makes the other may "
        "destroy wrongly. Whether that caused this crash the evidence does not decide",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            "install all packages from one source (pip or conda, not both), in a fresh environment",
            "unset LD_LIBRARY_PATH and LD_PRELOAD as a test",
        ),
        evidence=tuple(evidence),
    )
