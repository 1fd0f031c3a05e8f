"""An allocation failed and nothing caught it.

What it means
    operator new threw std::bad_alloc, or PyTorch's allocator its own error, in a place where
    no Python code could catch it (a background thread), so the process ended. Either memory
    was short (a limit, no overcommit, address space), or the size asked for was absurd.
How to be sure
    The exception's type and message. The kernel's OOM killer leaves no core and no exception:
    this is a different thing, a limit such as ulimit -v or a size that was computed wrongly.
What to do
    Look at the size that was asked for. Plausible: raise the limit or use less. Absurd: find
    the computation (a negative or uninitialised length).
"""

from postmortem.diagnose.core.citing import cite_exception
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.memory_words import size_words
from postmortem.diagnose.core.owners import Owner, owner
from postmortem.diagnose.core.special_exceptions import is_out_of_memory
from postmortem.diagnose.core.stacks import is_malloc, site, thrown
from postmortem.diagnose.names import short
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.crash import CppException
from postmortem.facts.memory import MemoryTotals

_NEW = "operator new"
_LIMITS = (
    "ulimit -v; cat /proc/sys/vm/overcommit_memory; the container's memory.max; what else ran on "
    "that host?"
)


@rule(
    "https://man7.org/linux/man-pages/man5/proc_sys_vm.5.html",
    "https://pytorch.org/docs/stable/notes/cuda.html#memory-management",
)
def out_of_memory(
    crash: Crash, exception: CppException | None, memory: MemoryTotals | None
) -> Findings:
    own = thrown(exception, crash.threads)
    if crash.kind is not FaultKind.ABORT:
        return
    if own is None:
        yield from _by_new_handler(crash)
        return
    is_gpu = "OutOfMemoryError" in own.type or own.match("gpu-memory-short") is not None
    if not (is_gpu or is_out_of_memory(own)):
        return
    evidence = [cite_exception(own), *crash.frame(crash.caller)]
    where = crash.named(" in", crash.caller, 40)
    if memory is not None:
        evidence.append(
            Evidence("memory of the process", f"{size_words(memory.mapped_bytes)} mapped")
        )
    asked = own.match("gpu-memory-asked-for")
    size = f" ({asked['size']} asked for)" if asked else ""
    what = "GPU memory" if is_gpu else "memory"
    yield Finding(
        title=f"out of {what}{size}: {short(own.type)} was not caught{where}",
        cause=f"an allocation of {what} failed and its exception reached the top of the thread: "
        "either the limit of memory was reached, or the size asked for was wrong",
        confidence=Confidence.LIKELY,
        next_steps=(
            "look at which size was asked for: absurdly large means a wrong computation, not a "
            "lack of memory",
            "nvidia-smi while it runs; smaller batches; other processes on the same GPU?"
            if is_gpu
            else _LIMITS,
        ),
        evidence=tuple(evidence),
    )


def _by_new_handler(crash: Crash) -> Findings:
    """Yield the end by what std::set_new_handler() was given: called where memory is short."""
    frames = crash.crashed.frames
    at = site(crash.crashed)
    if at is None or is_malloc(frames[at]) or at + 1 >= len(frames):
        return
    new = frames[at + 1]
    if not new.function.startswith(_NEW) or owner(new) is not Owner.CXX_RUNTIME:
        return
    yield Finding(
        title=f"out of memory: operator new got none{crash.named(' and called', at, 40)}",
        cause="operator new calls the handler that std::set_new_handler() was given where an "
        "allocation fails, and that one ended the process",
        confidence=Confidence.LIKELY,
        next_steps=(_LIMITS,),
        evidence=tuple(e for i in (at, at + 1) for e in crash.frame(i)),
    )
