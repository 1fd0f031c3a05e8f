"""A kernel failed on the GPU."""

from collections.abc import Iterator

from postmortem.diagnose.gpu.words import kernel_of_fault, line_of, triple
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.gpu_core import GpuCore, GpuFault
from postmortem.knowledge.cuda_exceptions import REFERENCE, CudaException, cuda_exception
from postmortem.text import address, counted

_MOST = 4


@rule(REFERENCE, "https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html")
def kernel_failed(core: GpuCore) -> Findings:
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
    told: set[tuple[int, int, int, str | None]] = set()
    for fault in core.faults:
        line = line_of(fault.frames[0]) if fault.frames else None
        key = (fault.first.device, fault.first.grid, fault.code, line)
        if fault.code == 0 or key in told or len(told) >= _MOST:
            continue
        yield _finding(core, fault, cuda_exception(fault.code), first=not told)
        told.add(key)


@rule(REFERENCE, yields_to=("kernel_failed",), yields_as=Role.CONTEXT)
def kernel_trapped(core: GpuCore) -> Findings:
    """A kernel stopped itself: a trap or a breakpoint in its code.

    What it means
        No exception is reported, but a warp stands at a trap: __trap(), which libraries call where
        they check their own arguments, or a breakpoint (__brkpt(), asm("brkpt;")).

    How to be sure
        The dump marks the warp as stopped. Whether it was a trap or a breakpoint the code at that
        line says.

    What to do
        Read the condition before the line named here. Without a line, build with -lineinfo.
    """
    fault = next((one for one in core.faults if one.code == 0), None)
    if fault is None:
        return
    kernel = kernel_of_fault(core, fault)
    line = line_of(fault.frames[0]) if fault.frames else None
    yield Finding(
        title=clip(
            f"{kernel or 'a kernel'} stopped itself{f' at {line}' if line else ''}, in "
            f"block {triple(fault.first.block)}, thread {triple(fault.first.thread)}",
            120,
        ),
        cause="A warp stands at a trap or a breakpoint of the kernel's own code: usually a check "
        "that failed.",
        confidence=Confidence.LIKELY,
        next_steps=("read the condition before that line", *_how_to_know_more(core, fault, line)),
        evidence=_evidence(core, fault, "a trap or breakpoint"),
        about=Subject(pid=core.pid, host=core.hostname),
    )


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
        title=clip(f"{kernel or 'a kernel'} failed with {what.words}{at}{_who(fault, what)}", 140),
        cause=cause,
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
        next_steps=(*what.next_steps, *_how_to_know_more(core, fault, line)),
        evidence=_evidence(core, fault, f"{what.name} ({what.code}): {what.words}"),
        role=None if first else Role.CONTRIBUTING,
        about=Subject(pid=core.pid, host=core.hostname, path=line),
    )


def _who(fault: GpuFault, what: CudaException) -> str:
    if not fault.has_thread:
        return f", on multiprocessor {fault.first.sm}"
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


def _how_to_know_more(core: GpuCore, fault: GpuFault, line: str | None) -> Iterator[str]:
    if line is None:
        if any(frame.places for frame in fault.frames):
            yield "build the kernel with -lineinfo (nvcc) for its source line in the next dump"
        else:
            yield "the dump lacks the kernel's code: if it was cut, copy it again"
    kernel = core.kernel_of(fault.first.device, fault.first.grid)
    if kernel is None or not kernel.blocking:
        yield (
            "for the line of Python that launched it: postmortem run --sync -- CMD (launches "
            "wait); without it Python's line is that of the next synchronisation"
        )


def _evidence(core: GpuCore, fault: GpuFault, what: str) -> tuple[Evidence, ...]:
    device = core.devices[fault.first.device] if fault.first.device < len(core.devices) else None
    gpu = f"GPU {fault.first.device}" + (f" ({device.name}, {device.bus})" if device else "")
    by = {
        "lane": "the thread's own row",
        "warp": "the multiprocessor's row, of the active threads of a warp with an error address",
        "sm": "the multiprocessor's row alone",
        "trap": "the warp's row",
    }[fault.source]
    rows = [Evidence(gpu, f"{what}; said by {by}")]
    if fault.detail:
        rows.append(Evidence("the driver", fault.detail))
    if fault.has_thread:
        one = fault.first
        rows.append(
            Evidence(
                f"block {triple(one.block)}, thread {triple(one.thread)}",
                f"multiprocessor {one.sm}, warp {one.warp}, lane {one.lane}; in all "
                f"{counted(fault.threads, 'thread')} of {counted(fault.warps, 'warp')} in "
                f"{counted(fault.blocks, 'block')} failed there",
            )
        )
    for index, frame in enumerate(fault.frames[:_MOST]):
        for place in frame.places or (None,):
            name = (
                place.function if place is not None and place.function else "code not in the dump"
            )
            where = f" at {place.file}:{place.line}" if place is not None and place.file else ""
            inlined = ", inlined" if place is not None and place.inlined else ""
            rows.append(
                Evidence(f"GPU frame {index}", f"{name}{where}{inlined} (pc {address(frame.pc)})")
            )
    if fault.target_block is not None:
        rows.append(Evidence("cluster", f"the block that was asked: {triple(fault.target_block)}"))
    return tuple(rows)
