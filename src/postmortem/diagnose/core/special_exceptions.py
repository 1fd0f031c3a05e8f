"""C++ exceptions and frames that have a rule of their own, so that no two rules claim them."""

from postmortem.diagnose.core.stacks import is_nameless
from postmortem.diagnose.names import bare, clip
from postmortem.facts.crash import CppException
from postmortem.facts.threads import Thread
from postmortem.patterns import Pattern
from postmortem.records import record

EXCEPTION_RULES = (
    "nccl_watchdog_abort",
    "gloo_abort",
    "out_of_memory",
    "cuda_error",
    "thread_limit",
)
"""Rules that read the exception of the crashed thread, and say more of it than its words."""

UNKNOWN_TYPE = "(unknown type)"
_OUT_OF_MEMORY = Pattern(r"bad_alloc|OutOfMemoryError")
_NCCL_TYPE = Pattern(r"DistBackendError|NCCL\w*Error|DistNetworkError")

HEARTBEAT = Pattern(r"::heartbeatMonitor$|::HeartbeatMonitor::(run|runLoop|start)$")

# The watchdog's functions through PyTorch's versions, newest first; each pattern is matched against
# names without arguments. Found in the symbols of the wheels 1.13.1, 2.1.2, 2.4.1, 2.7.1, 2.9.1.
_GENERATIONS: tuple[tuple[str, Pattern], ...] = (
    ("2.8 or later", Pattern(r"NCCL\w*::Watchdog::(run|runLoop|\w+)$")),
    ("2.2 to 2.7", Pattern(r"NCCL\w*::(WorkNCCL::finishedGPUExecutionInternal|watchdogHandler)$")),
    ("2.0 to 2.1", Pattern(r"NCCL\w*::WorkNCCL::handleException$")),
    ("1.11 to 1.13", Pattern(r"NCCL\w*::WorkNCCL::handleNCCLGuard$")),
    (
        "",
        Pattern(
            r"NCCL\w*::(ncclCommWatchdog(Internal)?|workCleanupLoop|runHookLoop|terminateProcess|"
            r"WorkNCCL::(checkTimeout|checkAndThrowException|isCompleted|synchronizeInternal))$"
        ),
    ),
)


@record
class WatchdogFrames:
    """PyTorch's NCCL watchdog, or the monitor that watches it, on a stack."""

    innermost: int
    outermost: int
    version: str
    """PyTorch versions that have such frames; empty when they do not tell."""
    is_heartbeat: bool


def watchdog_frames(thread: Thread) -> WatchdogFrames | None:
    """Return the watchdog's frames on a stack, or None."""
    found: list[int] = []
    version, is_heartbeat = "", False
    for index, frame in enumerate(thread.frames[:64]):
        if "NCCL" not in frame.function and "eartbeatMonitor" not in frame.function:
            continue
        name = bare(frame.function)
        if HEARTBEAT.search(name):
            found.append(index)
            is_heartbeat = True
        for versions, pattern in _GENERATIONS:
            if pattern.search(name):
                found.append(index)
                version = version or versions
                break
    if not found:
        return None
    return WatchdogFrames(found[0], found[-1], version, is_heartbeat)


def is_nccl_thread_name(thread: Thread) -> bool:
    """Return whether the kernel's name of the thread is the watchdog's (since torch 2.3)."""
    return (thread.name or "").startswith(("pt_nccl_watchd", "pt_nccl_heart"))


def is_nccl(exception: CppException | None) -> bool:
    """Return whether an exception carries an error of NCCL or of its process group."""
    if exception is None:
        return False
    of_torch = _NCCL_TYPE.search(exception.type) is not None or "c10" in exception.type
    return exception.match("text-of-nccl") is not None or (of_torch and "NCCL" in exception.type)


def is_gloo(exception: CppException | None) -> bool:
    """Return whether an exception comes from gloo."""
    if exception is None:
        return False
    return "gloo" in exception.type.lower() or exception.match("text-of-gloo") is not None


def cuda_words(exception: CppException | None) -> str | None:
    """Return what CUDA said in an exception: ``"an illegal memory access was encountered"``."""
    if exception is None:
        return None
    found = exception.match("gpu-error")
    if found is not None:
        return clip(found["words"], 200)
    return "" if "AcceleratorError" in exception.type else None


def is_out_of_memory(exception: CppException) -> bool:
    """Return whether an exception says that memory ran out."""
    return (
        _OUT_OF_MEMORY.search(exception.type) is not None
        or exception.match("memory-short") is not None
    )


def is_thread_limit(exception: CppException | None, thread: Thread) -> bool:
    """Return whether std::thread threw because pthread_create() failed (EAGAIN).

    Little else throws that; without a name on the stack its words are enough.
    """
    if exception is None or exception.type not in ("std::system_error", UNKNOWN_TYPE):
        return False
    if exception.match("system-error-eagain") is None:
        return False
    if exception.type == UNKNOWN_TYPE and exception.match("system-error-eagain-alone") is None:
        return False
    if is_nameless(thread):
        return True
    names = [bare(frame.function) for frame in thread.frames[:24]]
    return any(name.startswith("std::thread::") for name in names)
