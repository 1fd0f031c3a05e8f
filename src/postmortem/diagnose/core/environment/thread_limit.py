"""A new thread could not be made.

What it means
    pthread_create() answered EAGAIN, std::thread made an exception of it, and nothing caught
    that. A limit was reached: threads of the user (ulimit -u, which counts all of the user's
    processes on the host), of the container or job (pids.max), of the system, or address space
    for one more stack (ulimit -v).
How to be sure
    The exception says "Resource temporarily unavailable" and std::thread threw it. How many
    threads the process itself had is in the core; the limit is not.
What to do
    Compare the number of threads here with the limits. Few threads here and many ranks or jobs
    on the host: the limit is shared. Thousands here: threads are made and never ended.
"""

from postmortem import thresholds
from postmortem.diagnose.core.citing import cite_exception
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.special_exceptions import is_thread_limit
from postmortem.diagnose.core.stacks import caller, is_nameless, thrown
from postmortem.diagnose.names import bare
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.crash import CppException
from postmortem.facts.memory import MemoryTotals
from postmortem.facts.threads import Thread


@rule(
    "https://man7.org/linux/man-pages/man3/pthread_create.3.html",
    "https://man7.org/linux/man-pages/man7/cgroups.7.html",
)
def thread_limit(
    crash: Crash, exception: CppException | None, memory: MemoryTotals | None
) -> Findings:
    own = thrown(exception, crash.threads)
    if crash.kind is not FaultKind.ABORT or own is None or not is_thread_limit(own, crash.crashed):
        return
    count = len(crash.threads)
    evidence = [cite_exception(own), Evidence("threads of the process", f"{count:,}")]
    if memory is not None:
        mapped = f"{memory.mapped_bytes / (1 << 30):.1f} GiB mapped"
        evidence.append(Evidence("address space of the process", mapped))
    index = _maker(crash.crashed)
    where = crash.named(" in", index, 36)
    many = (
        f"{count:,} threads are in this process itself: what starts them, and what ends them?"
        if count >= thresholds.OWN_THREADS
        else f"this process has only {count:,} threads: count those of the others on the host "
        "(ps -eLf | wc -l); the limit of the user is shared by all ranks and jobs"
    )
    yield Finding(
        title=f"no more threads could be made{where}: a limit was reached",
        cause="pthread_create() failed with EAGAIN, and the exception that std::thread made of it "
        "was not caught: a limit of threads (ulimit -u, pids.max of the container or job) or of "
        "address space (ulimit -v) was reached",
        confidence=Confidence.POSSIBLE if is_nameless(crash.crashed) else Confidence.LIKELY,
        next_steps=(
            "ulimit -u; ulimit -v; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current "
            "/proc/sys/kernel/threads-max",
            many,
            "fewer threads for each rank: OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, num_workers",
        ),
        evidence=(*evidence, *crash.frame(index)),
    )


def _maker(thread: Thread) -> int | None:
    """Return who wanted the thread: the first frame beyond the C++ library and its headers."""
    start = caller(thread)
    for index in range(start or 0, len(thread.frames)):
        if not bare(thread.frames[index].function).startswith("std::"):
            return index
    return start
