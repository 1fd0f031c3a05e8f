"""A CUDA error ended the process."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.diagnose.core.citing import cite_exception, cite_frame, cite_python
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.special_exceptions import (
    cuda_words,
    is_out_of_memory,
    watchdog_frames,
)
from postmortem.diagnose.core.stacks import caller, thrown
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Finding, rule
from postmortem.facts.crash import CppException
from postmortem.facts.process import Process
from postmortem.facts.threads import Threads
from postmortem.report.model import Confidence, Role

# (words of cudaGetErrorString, meaning, what to do): first match counts.
_ERRORS: tuple[tuple[str, str, str], ...] = (
    (
        "illegal memory access",
        "a kernel read or wrote an address that is not its own: an index out of range, a freed "
        "tensor, a wrong stride; seldom faulty hardware",
        "compute-sanitizer python … on a small case names the kernel; dmesg for Xid 31 or 13; "
        "the same GPU every time: suspect the hardware",
    ),
    (
        "device-side assert",
        "an assertion in a kernel failed, mostly an index out of range: a label not below the "
        "number of classes, a token not in the vocabulary",
        'look for "Assertion `…` failed" on standard error; run on the CPU or with '
        "CUDA_LAUNCH_BLOCKING=1 for the line",
    ),
    (
        "ECC",
        "the GPU's memory has an uncorrectable error: the hardware, not the program",
        "note host and GPU; nvidia-smi -q -d ECC,ROW_REMAPPER; reset or drain the GPU",
    ),
    (
        "unspecified launch failure",
        "a kernel died: an illegal access in most cases, a driver or hardware fault otherwise",
        "compute-sanitizer on a small case; dmesg for Xid lines",
    ),
    (
        "misaligned address",
        "a kernel accessed memory at an address that its vector instruction does not permit",
        "check storage offsets and strides of the tensors that go into custom kernels",
    ),
    (
        "illegal instruction",
        "a kernel ran code that the GPU does not know: damaged memory or a wrong binary",
        "check which GPU architecture the extension was built for; dmesg for Xid 13",
    ),
    (
        "no kernel image",
        "the library was not built for this kind of GPU",
        "torch.cuda.get_arch_list() against nvidia-smi --query-gpu=compute_cap --format=csv",
    ),
    (
        "driver shutting down",
        "CUDA was called while the program was already ending",
        "end threads and process groups that use the GPU before main returns",
    ),
    (
        "initialization error",
        "CUDA was used after fork, or the driver and library do not fit",
        'start workers with multiprocessing.set_start_method("spawn")',
    ),
    (
        "busy or unavailable",
        "another process holds the GPU exclusively, or it has fallen away",
        "nvidia-smi: compute mode and other processes; dmesg for Xid lines",
    ),
)


@rule(
    role=Role.ROOT,
    references=(
        "https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html",
        "https://docs.nvidia.com/deploy/xid-errors/index.html",
        "https://github.com/sgl-project/sglang/issues/6309",
    ),
)
def cuda_error(
    kind: FaultKind,
    threads: Threads | None,
    exception: CppException | None,
    process: Process | None,
) -> Iterator[Finding]:
    """A CUDA error ended the process.

    What it means
        A kernel of this process failed, and the error was noticed later, by whoever next asked
        the GPU: often the NCCL watchdog or a background thread. After such an error the GPU
        context is dead and nothing in the process can recover.

    How to be sure
        The exception's text is CUDA's. Where it was thrown says only who noticed it, because
        kernels run asynchronously.

    What to do
        Run with CUDA_LAUNCH_BLOCKING=1 or under compute-sanitizer to get the place; look for Xid
        lines in dmesg of that host.
    """
    if kind is not FaultKind.ABORT:
        return
    own = thrown(exception, threads)
    words = cuda_words(own)
    if own is None or words is None or is_out_of_memory(own):
        return
    crashed = threads.crashed if threads is not None else None
    watchdog = watchdog_frames(crashed) if crashed is not None else None
    meaning, step = "a CUDA call reported an error of earlier work on the GPU", ""
    for known, its_meaning, its_step in _ERRORS:
        if known in words:
            meaning, step = its_meaning, its_step
            break
    evidence = [cite_exception(own)]
    index = caller(crashed) if crashed is not None else None
    if crashed is not None and index is not None:
        evidence.extend([cite_frame(crashed, index), *cite_python(crashed)])
    by = ", noticed by the NCCL watchdog" if watchdog is not None else ""
    at_exit = "driver shutting down" in words
    yield Finding(
        title=clip(f"CUDA error: {clip(words or own.type, 52)}{by}", 100),
        cause=f"{meaning}. Kernels run asynchronously: the stack shows who noticed it, not who "
        "did it",
        confidence=Confidence.LIKELY,
        next_steps=tuple(
            filter(
                None,
                (
                    step,
                    "run again with CUDA_LAUNCH_BLOCKING=1: the error then comes at the call that "
                    "caused it",
                    "dmesg -T | grep -i xid on that host, at this time",
                ),
            )
        ),
        evidence=tuple(evidence),
        role=Role.CASCADE if at_exit else None,
    )
