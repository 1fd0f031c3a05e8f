"""gloo threw an error on a thread of its own and ended the process.

What it means
    gloo carries PyTorch's collectives on CPUs. Its loop thread met a connection that another
    rank closed, or a message that does not fit the collective that this rank called; nobody
    can catch an exception there, so the process ends. The cause is usually another rank, or
    ranks that called different things.
How to be sure
    The exception is gloo's, or gloo's loop stands under std::terminate. A size that does not
    fit means that two ranks disagree: which of them is wrong, one core cannot tell.
What to do
    Look for the rank that failed first. For sizes, run with TORCH_DISTRIBUTED_DEBUG=DETAIL.
"""

from postmortem.diagnose.core.citing import cite_exception
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.special_exceptions import is_gloo, is_nccl, watchdog_frames
from postmortem.diagnose.core.stacks import is_terminate, thrown
from postmortem.diagnose.rule import Confidence, Finding, Findings, Role, rule
from postmortem.facts.crash import CppException


@rule(
    "https://github.com/pytorch/gloo/blob/main/docs/errors.md",
    "https://pytorch.org/docs/stable/distributed.html",
    role=Role.CASCADE,
)
def gloo_abort(crash: Crash, exception: CppException | None) -> Findings:
    if crash.kind is not FaultKind.ABORT:
        return
    own = thrown(exception, crash.threads)
    if is_nccl(own) or watchdog_frames(crash.crashed) is not None:
        return
    index = crash.crashed.index_of(r"\bgloo::")
    terminated = any(is_terminate(f) for f in crash.crashed.frames[:12])
    if not is_gloo(own) and not (index is not None and terminated):
        return
    cited = (cite_exception(own),) if own is not None else ()
    sizes = own.match("gloo-enforce-size") if own is not None else None
    if sizes is not None:
        what = "two ranks disagree about the size of a collective"
        received, wanted = sizes["received"], sizes["wanted"]
        cause = (
            f"gloo received {received} bytes where this rank expected at most {wanted}: two ranks "
            "called a collective with different sizes, types, or in a different order. The rank "
            "that dies is the one that received too much; either may be wrong"
        )
        step = "TORCH_DISTRIBUTED_DEBUG=DETAIL names the ranks whose call differs"
    elif own and own.match("error-peer-closed", "gloo-timeout"):
        what = "another rank closed its connection"
        cause = "a connection of gloo ended: the other rank died or left first"
        step = "find the rank at the address in the message: its log has the first error"
    else:
        what = "an error on gloo's own thread ended the process"
        cause = "gloo threw an error where nothing could catch it"
        step = "read the exception's message, then the logs of the other ranks"
    yield Finding(
        title=f"gloo: {what}; the fault may be on another rank",
        cause=cause,
        confidence=Confidence.LIKELY if own and own.what else Confidence.POSSIBLE,
        next_steps=(step, "read the logs of all ranks for the first error, not the last"),
        evidence=(*cited, *crash.frame(index)),
    )
