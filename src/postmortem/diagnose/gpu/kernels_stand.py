"""The dump was asked for: no kernel failed, and this is where their warps stood.

What it means
    Somebody wrote to the pipe of user-triggered dumps, mostly because the job hung. One dump
    cannot tell a kernel that hangs from one that runs: it shows where the warps were at that
    moment.
How to be sure
    Write a second dump some seconds later. Warps that stand at the same place in both, in a
    loop or at a barrier, hang. A kernel of NCCL waits for other ranks: then look at the dumps,
    stacks or flight recorders of those.
What to do
    Compare the dumps of all ranks. The rank whose GPU has no kernel of NCCL is the one that the
    others wait for.
"""

from postmortem.diagnose.gpu.words import line_of, short_kernel
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.gpu_core import GpuCore, GpuStand
from postmortem.text import counted

_MOST = 6


@rule("https://docs.nvidia.com/cuda/cuda-gdb/index.html#gpu-core-dump-support", role=Role.CONTEXT)
def kernels_stand(core: GpuCore) -> Findings:
    if core.faults or not core.warps:
        return
    names = {
        (kernel.device, kernel.grid): short_kernel(kernel.name)
        for kernel in core.kernels
        if kernel.name
    }
    running = {stand.grid: names.get((stand.device, stand.grid)) for stand in core.stands}
    waits = [name for name in running.values() if name and is_of_nccl(name)]
    first = core.stands[0]
    if waits:
        title = f"no kernel had failed; {waits[0]} was on the GPU, which waits for other ranks"
        cause = (
            "Kernels of NCCL run until all ranks of the group have come and data has moved. Which "
            "rank is missing this dump does not say."
        )
        steps: tuple[str, ...] = (
            "postmortem hang PID… on every rank, or a dump of each: who is not in NCCL's kernel?",
            "a second dump some seconds later tells whether it moves",
        )
    else:
        name = names.get((first.device, first.grid), "a kernel")
        title = f"no kernel had failed; most warps stood in {name}"
        cause = "The dump shows one moment: it does not say whether the kernel hangs or runs."
        steps = ("write a second dump some seconds later: warps that still stand there hang",)
    yield Finding(
        title=title,
        title_letters=120,
        cause=cause,
        confidence=Confidence.POSSIBLE,
        next_steps=steps,
        evidence=tuple(_row(stand, names) for stand in core.stands[:_MOST]),
        about=Subject(pid=core.pid, host=core.hostname),
    )


def is_of_nccl(kernel: str) -> bool:
    """Return whether a kernel is one of NCCL's."""
    return "ncclDevKernel" in kernel or "ncclKernel" in kernel


def _row(stand: GpuStand, names: dict[tuple[int, int], str]) -> Evidence:
    name = names.get((stand.device, stand.grid), f"grid {stand.grid}")
    line = line_of(stand.frames[0])
    at = line or f"pc 0x{stand.frames[0].pc:x}"
    return Evidence(
        f"GPU {stand.device}, {name}",
        f"{counted(stand.warps, 'warp')} of {counted(stand.blocks, 'block')} at {at}",
    )
