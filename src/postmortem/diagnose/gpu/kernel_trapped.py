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

from postmortem.diagnose.gpu.words import (
    cite_fault,
    how_to_know_more,
    kernel_of_fault,
    line_of,
    triple,
)
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, Subject, rule
from postmortem.facts.gpu_core import GpuCore
from postmortem.knowledge.cuda_exceptions import REFERENCE


@rule(REFERENCE, yields_to=("kernel_failed",), yields_as=Role.CONTEXT)
def kernel_trapped(core: GpuCore) -> Findings:
    fault = next((one for one in core.faults if one.code == 0), None)
    if fault is None:
        return
    kernel = kernel_of_fault(core, fault)
    line = line_of(fault.frames[0]) if fault.frames else None
    yield Finding(
        title=f"{kernel or 'a kernel'} stopped itself{f' at {line}' if line else ''}, in "
        f"block {triple(fault.first.block)}, thread {triple(fault.first.thread)}",
        title_letters=120,
        cause="A warp stands at a trap or a breakpoint of the kernel's own code: usually a check "
        "that failed.",
        confidence=Confidence.LIKELY,
        next_steps=("read the condition before that line", *how_to_know_more(core, fault, line)),
        evidence=cite_fault(core, fault, "a trap or breakpoint"),
        about=Subject(pid=core.pid, host=core.hostname),
    )
