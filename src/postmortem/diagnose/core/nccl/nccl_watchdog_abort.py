"""PyTorch's NCCL watchdog ended the process because of an error elsewhere.

What it means
    A thread of PyTorch's process group watches NCCL. It saw an asynchronous error of NCCL, a
    time-out or a CUDA error, and rethrew it so that the process dies instead of computing on
    bad data. The thread that crashed is the messenger; the fault is in the network, in another
    rank, or in a kernel of this rank.
How to be sure
    The watchdog's functions stand under abort() in the crashed thread (their names changed
    with PyTorch's versions), or the exception that ended the process is NCCL's. The exception's
    text, when the core has it, says what NCCL reported.
What to do
    Do not debug this thread. Find the first "NCCL WARN" line of this rank, see where the main
    thread stood, and look at the other ranks: the one that does not report is the suspect.
"""

from postmortem.diagnose.core.citing import cite_exception, cite_frame
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.nccl_words import NcclError, parse
from postmortem.diagnose.core.special_exceptions import (
    is_nccl,
    is_nccl_thread_name,
    watchdog_frames,
)
from postmortem.diagnose.core.stacks import thrown
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.crash import AbortMessage, CppException
from postmortem.facts.process import Process
from postmortem.facts.threads import Thread, Threads

_WATCHDOG = "NCCL watchdog stopped the process on purpose"


@rule(
    "https://pytorch.org/docs/stable/torch_nccl_environment_variables.html",
    "https://github.com/pytorch/pytorch/issues/126544",
    "https://github.com/pytorch/pytorch/issues/112518",
    "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    role=Role.CASCADE,
)
def nccl_watchdog_abort(
    crash: Crash, exception: CppException | None, message: AbortMessage | None
) -> Findings:
    crashed = crash.crashed
    if crash.kind is not FaultKind.ABORT:
        return
    own = thrown(exception, crash.threads)
    frames = watchdog_frames(crashed)
    named = is_nccl_thread_name(crashed)
    if frames is None and not named and not is_nccl(own):
        return
    if message is not None and message.text and own is None:
        return  # the C library stopped this thread: it failed, and reports nobody else's failure
    error = parse(own) if own is not None else NcclError()
    evidence = _evidence(crashed, own)
    certain = frames is not None
    heartbeat = frames.is_heartbeat if frames else named and "heart" in (crashed.name or "")
    version = f" (PyTorch {frames.version})" if frames is not None and frames.version else ""
    if heartbeat:
        title = "PyTorch's NCCL heartbeat monitor killed the process: its watchdog was stuck"
        cause = (
            "the monitor thread of PyTorch's process group ends the process when the NCCL watchdog "
            "makes no progress: the watchdog is blocked in a CUDA or NCCL call, or waits for the "
            "GIL. The other threads of this core show which"
        )
    elif certain or named:
        title = _title(error)
        cause = (
            f"PyTorch's process group watchdog{version} caught {error.cause} and rethrew it on "
            "purpose, so that the process ends instead of computing on bad data. The crashed "
            "thread is the messenger, not the fault"
        )
    else:
        title = f"an NCCL error ended the process: {error.words or 'see its text'}; the fault is "
        title += "elsewhere"
        cause = (
            f"an error of the NCCL process group ({error.cause}) was thrown outside Python and "
            "ended the process. It reports what NCCL met; the fault itself is elsewhere"
        )
    yield Finding(
        title=title,
        cause=cause + (f". {error.meaning}" if error.meaning else ""),
        confidence=Confidence.CERTAIN if certain else Confidence.LIKELY,
        next_steps=_steps(error, heartbeat, crash.process),
        evidence=evidence + _main_thread(crash.threads),
    )


def _title(error: NcclError) -> str:
    if error.words:
        title = f"{_WATCHDOG}: {error.words}"
        whole = f"{title}; the fault is elsewhere"
        return whole if len(whole) <= 100 else title
    return f"PyTorch's {_WATCHDOG}; the fault itself is elsewhere"


def _evidence(thread: Thread, own: CppException | None) -> tuple[Evidence, ...]:
    evidence = [cite_exception(own)] if own is not None else []
    frames = watchdog_frames(thread)
    if frames is not None:
        evidence.append(cite_frame(thread, frames.innermost))
        if frames.outermost != frames.innermost:
            evidence.append(cite_frame(thread, frames.outermost))
    if is_nccl_thread_name(thread):
        evidence.append(Evidence(f"thread {thread.tid}", f'its name is "{thread.name}"'))
    return tuple(evidence)


def _main_thread(threads: Threads) -> tuple[Evidence, ...]:
    """Return where the main thread stood: often waiting in the call that never came back."""
    main = threads.main
    if main is None or main.crashed or not main.frames:
        return ()
    python = next((i for i, frame in enumerate(main.frames) if frame.kind == "python"), 0)
    return (cite_frame(main, python),)


def _steps(error: NcclError, heartbeat: bool, process: Process) -> tuple[str, ...]:
    log = f"rank {process.rank}'s log" if process.rank is not None else "this rank's log"
    steps = [] if not error.step else [error.step]
    if heartbeat:
        return (
            "in this core, see what the thread with the watchdog waits for, and which thread holds "
            "the GIL: a CUDA call under the GIL is the usual holder",
            "all ranks at the same time? look for one stuck GPU (nvidia-smi, dmesg for Xid)",
            "raise TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC only if the job was truly just slow",
        )
    steps += [
        f'in {log}, the first "NCCL WARN" line before this moment names the call that failed',
        "no such line? run again with NCCL_DEBUG=INFO; for NET/IB lines check that host's "
        "InfiniBand, RoCE or OPA link (ibstat, port counters, dmesg)",
        "compare the logs of all ranks: those that only report time-outs or closed connections "
        "are victims, a rank that is silent or failed first is the suspect",
    ]
    return tuple(steps)
