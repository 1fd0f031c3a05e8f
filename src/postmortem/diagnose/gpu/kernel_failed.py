"""A kernel failed on the GPU, and the dump says which one, where and in which thread.

What it means
    The GPU stopped at an instruction of this kernel. The process hears of it later, at whatever
    it next asks the GPU for: its own stack and Python's line tell who noticed, not who did it,
    unless launches were made to wait (CUDA_LAUNCH_BLOCKING=1).
How to be sure
    The exception, the kernel, the block and the thread are what the GPU's driver wrote. How
    exact the thread is depends on the exception: the title says "a thread of the warp" where
    only that is known, and names the multiprocessor where no warp is. Why the address or the
    instruction was wrong the dump does not say.
What to do
    Look at the line and the indices of that thread. Without a line, build the kernel with
    -lineinfo: it costs nothing at run time.
"""

from postmortem.diagnose.gpu.words import (
    cite_fault,
    how_to_know_more,
    kernel_of_fault,
    line_of,
    triple,
)
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.gpu_core import GpuCore, GpuFault
from postmortem.knowledge.cuda_exceptions import REFERENCE, CudaException, cuda_exception

_MOST = 4


@rule(REFERENCE, "https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html")
def kernel_failed(core: GpuCore) -> Findings:
    told: set[tuple[int, int, int, str | None]] = set()
    for fault in core.faults:
        line = line_of(fault.frames[0]) if fault.frames else None
        key = (fault.first.device, fault.first.grid, fault.code, line)
        if fault.code == 0 or key in told or len(told) >= _MOST:
            continue
        yield _finding(core, fault, cuda_exception(fault.code), first=not told)
        told.add(key)


def _finding(core: GpuCore, fault: GpuFault, what: CudaException, *, first: bool) -> Finding:
    kernel = kernel_of_fault(core, fault)
    line = line_of(fault.frames[0]) if fault.frames else None
    at = f" at {line}" if line else ""
    cause = what.cause
    if fault.source == "sm":
        cause += " The warps that did it had left by then: the thread is not known."
    elif what.exact != "lane":
        cause += _not_exact(fault, what)
    sure = fault.source != "sm" and what.exact in ("lane", "warp") and what.kind != "unknown"
    if what.exact == "device" and len({one.grid for one in core.stands}) == 1:
        sure = fault.has_thread  # nothing else ran
    return Finding(
        title=f"{kernel or 'a kernel'} failed with {what.words}{at}{_who(fault, what)}",
        title_letters=140,
        cause=cause,
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
        next_steps=(*what.next_steps, *how_to_know_more(core, fault, line)),
        evidence=cite_fault(core, fault, f"{what.name} ({what.code}): {what.words}"),
        role=None if first else Role.CONTRIBUTING,
        about=Subject(pid=core.pid, host=core.hostname, path=line),
    )


def _who(fault: GpuFault, what: CudaException) -> str:
    if not fault.has_thread:
        return f", on multiprocessor {fault.first.multiprocessor}"
    block, thread = triple(fault.first.block), triple(fault.first.thread)
    if fault.threads == 1 or what.exact == "lane":
        return f", in block {block}, thread {thread}"
    return f", in block {block}, a thread of the warp of {thread}"


def _not_exact(fault: GpuFault, what: CudaException) -> str:
    if what.exact == "device":
        return " The GPU does not know the thread: what is named here stood there when it stopped."
    if what.exact == "cluster":
        return " The GPU knows the cluster of blocks, not the thread."
    if fault.threads == 1:
        return ""
    return " The GPU knows the warp; the thread in it and the exact instruction may be others."
