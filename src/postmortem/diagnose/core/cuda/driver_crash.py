"""The process crashed inside the CUDA driver or a CUDA library.

What it means
    The innermost frame lies in libcuda, libcudart, cuDNN, cuBLAS or NCCL. Those rarely fail by
    themselves: a wrong or freed host pointer was passed in, the context was already gone (at
    exit, after fork), or driver and library versions do not fit.
How to be sure
    The stack alone cannot decide between these. The first frame of PyTorch or of your own
    names the call; versions and other crashes on that host narrow it.
What to do
    Check nvidia-smi's driver version against the CUDA version of the build; look for a fork
    after CUDA was used; run on another host.
"""

from postmortem.diagnose.core.citing import cite_frame, cite_python
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import Owner, file_name, owner
from postmortem.diagnose.core.stacks import exit_index, fault_start
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule

_OWNERS = (Owner.CUDA_DRIVER, Owner.CUDA, Owner.NCCL)


@rule(
    "https://docs.nvidia.com/deploy/cuda-compatibility/",
    "https://github.com/pytorch/pytorch/issues/24983",
    role=Role.CONTRIBUTING,
)
def driver_crash(crash: Crash) -> Findings:
    crashed = crash.crashed
    sent_again = crash.kind is FaultKind.RERAISED
    if not (crash.kind.is_memory_fault or sent_again):
        return
    start = fault_start(crashed, crash.kind)
    if start >= len(crashed.frames) or owner(crashed.frames[start]) not in _OWNERS:
        return
    library = file_name(crashed.frames[start].module)
    evidence = [crash.cited, cite_frame(crashed, start)]
    by = ""
    for index in range(start + 1, len(crashed.frames)):
        frame = crashed.frames[index]
        if owner(frame) not in _OWNERS and frame.function != "??":
            evidence.append(cite_frame(crashed, index))
            by = f", called from {short(frame.function, 40)}"
            break
    evidence.extend(cite_python(crashed))
    at_exit = exit_index(crashed) is not None
    yield Finding(
        title=f"the crash is inside {library}{by}{' at exit' if at_exit else ''}",
        cause="the driver or CUDA library failed on what it was given: a wrong or freed pointer, a "
        "context that was gone (at exit, after fork), or versions that do not match. The "
        "stack does "
        "not decide between them" + ("; here the program was already ending" if at_exit else ""),
        confidence=Confidence.POSSIBLE,
        next_steps=(
            "nvidia-smi (driver) against torch.version.cuda (library); the same crash on another "
            "host?",
            "was CUDA used before fork()? start workers with the spawn method",
            "dmesg -T | grep -i -e xid -e NVRM at this time",
        ),
        evidence=tuple(evidence),
    )
