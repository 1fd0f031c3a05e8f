"""The kernel refused memory.

What it means
    mmap, mremap, mprotect, brk or a fork gave ENOMEM: the process's address space (RLIMIT_AS,
    RLIMIT_DATA), the number of its mappings (vm.max_map_count) or, with vm.overcommit_memory=2,
    the system's commit limit is used up. Memory that is really used up shows otherwise: the OOM
    killer's SIGKILL. Programs try sizes and live with a refusal; the last one before the end
    counts.
How to be sure
    ulimit -v -d ; wc -l /proc/PID/maps against sysctl vm.max_map_count ; grep Commit
    /proc/meminfo.
What to do
    Raise the limit that is reached, or ask for less: smaller batches, fewer workers, fewer
    pinned buffers.
"""

from collections.abc import Iterator

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.arguments import argument, flags, number
from postmortem.diagnose.strace.calls import times, who
from postmortem.diagnose.strace.resource_limits import limit
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures, Match
from postmortem.text import size

_CALLS = (
    "mmap", "mmap2", "mremap", "brk", "mprotect", "clone", "clone3", "fork", "vfork", "execve",
    "shmat", "shmget", "pkey_mprotect", "memfd_create",
)  # fmt: skip
_LIMITS = ("RLIMIT_AS", "RLIMIT_DATA")
_LENGTHS = {"mmap": 1, "mmap2": 1, "mprotect": 1, "mremap": 2}
"""Which argument says how much is asked for."""


@rule(
    "https://man7.org/linux/man-pages/man2/mmap.2.html",
    "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
    "https://docs.kernel.org/mm/overcommit-accounting.html",
)
def memory_refused(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, tuple(_refusals(failures)))
    if not groups:
        return
    group = groups[0]
    matches = [one for one in group.matches if not _is_arena(one)] or group.matches
    match = max(matches, key=lambda one: _asked(one) or 0)
    asked = _asked(match)
    how_much = f" of {size(asked)}" if asked else ""
    if "MAP_STACK" in flags(match, 3):
        how_much += " for a thread's stack"
    known = [found for name in _LIMITS if (found := limit(logs, name, match)) and found.value]
    why = (
        f"its limit is {size(known[0].value or 0)}"
        if known
        else "a limit of its address space, of the number of mappings, or the system's commit limit"
    )
    yield of_calls(
        logs,
        groups[:1],
        Confidence.LIKELY,
        title=f"the kernel refused memory: {match.syscall}{how_much} by {who(match.pid)}",
        cause=f"{times(logs, group)} gave ENOMEM: {why}",
        next_steps=(
            "ulimit -v ; ulimit -d ; in a job: the memory that it asked for (--mem)",
            f"sysctl vm.max_map_count vm.overcommit_memory ; wc -l /proc/{match.pid}/maps "
            "while it runs",
            "ask for less: smaller batches, fewer DataLoader workers",
        ),
        evidence=(found.evidence for found in known),
    )


def _refusals(failures: Failures) -> Iterator[FailedCalls]:
    """Yield what was refused, but for huge pages.

    There are none unless somebody reserved them (vm.nr_hugepages): programs that ask for them
    (PostgreSQL, JVMs, allocators) go on with pages of the usual size.
    """
    for group in failures.of("ENOMEM"):
        if group.first.syscall in _CALLS:
            left = tuple(match for match in group.matches if "MAP_HUGETLB" not in flags(match, 3))
            if left:
                yield FailedCalls(group.errno, group.target, left)


def _is_arena(match: Match) -> bool:
    """Return whether malloc asked for address space of its own for a thread: it can do without."""
    return argument(match, 2) == "PROT_NONE" and "MAP_NORESERVE" in flags(match, 3)


def _asked(match: Match) -> int | None:
    """Return the bytes that a call asked for."""
    place = _LENGTHS.get(match.syscall)
    return None if place is None else number(match, place)
