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

from postmortem.diagnose.core.citing import cite_exception
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.special_exceptions import (
    cuda_words,
    is_out_of_memory,
    watchdog_frames,
)
from postmortem.diagnose.core.stacks import thrown
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule
from postmortem.facts.crash import CppException
from postmortem.facts.signature import Signature

_STEPS = (
    "run again with CUDA_LAUNCH_BLOCKING=1: the error then comes at the call that caused it",
    "dmesg -T | grep -i xid on that host, at this time",
)


@rule(
    "https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html",
    "https://docs.nvidia.com/deploy/xid-errors/index.html",
    "https://github.com/sgl-project/sglang/issues/6309",
)
def cuda_error(crash: Crash, exception: CppException | None) -> Findings:
    if crash.kind is not FaultKind.ABORT:
        return
    own = thrown(exception, crash.threads)
    words = cuda_words(own)
    if own is None or words is None or is_out_of_memory(own):
        return
    watchdog = watchdog_frames(crash.crashed)
    known = _known(own)
    by = ", noticed by the NCCL watchdog" if watchdog is not None else ""
    meaning = known.cause if known else "A CUDA call reported an error of earlier work on the GPU."
    yield Finding(
        title=f"CUDA error: {clip(words or own.type, 52)}{by}",
        cause=f"{meaning} Kernels run asynchronously: the stack shows who noticed it, not who did "
        "it.",
        confidence=Confidence.LIKELY,
        next_steps=known.next_steps if known else _STEPS,
        evidence=(cite_exception(own), *crash.frame(crash.caller)),
        role=Role(known.role) if known else None,
    )


def _known(own: CppException) -> Signature | None:
    """Return what the knowledge base has on the words of cudaGetErrorString()."""
    from postmortem.knowledge.messages import family  # only where CUDA failed

    mine = (message for message in family("cuda") if message.rule == cuda_error.id)
    return next((message for message in mine if own.match(message.id)), None)
