"""A process ended while a memory limit above it was full, and it held much of that.

What it means
    The kernel has likely killed it for memory (SIGKILL): the watch saw the limit all but
    reached when it saw the process for the last time.
How to be sure
    The kernel's log says whom it killed and why; a process may also have ended by itself then.
What to do
    Find what grew, or give the job more memory.
"""

from postmortem import thresholds
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.watch import Ceiling, Watched, Watching
from postmortem.text import size


@rule()
def memory_ran_out(seen: Watching) -> Findings:
    for one in seen.processes:
        if not one.ended:
            continue
        last = one.samples[-1]
        for ceiling in seen.ceilings:
            at_end = _used_at(ceiling, last.time, seen.interval_seconds)
            if (
                at_end is None
                or not ceiling.limit_bytes
                or at_end < thresholds.FULL_SHARE * ceiling.limit_bytes
            ):
                continue
            if last.held < thresholds.LARGEST_HOLDER_SHARE * ceiling.limit_bytes:
                continue
            yield _finding(one, ceiling, at_end)
            break


def _used_at(ceiling: Ceiling, at: float, gap: float) -> int | None:
    near = [used for when, used in ceiling.used if abs(when - at) <= 2 * gap]
    return max(near, default=None)


def _finding(one: Watched, ceiling: Ceiling, used: int) -> Finding:
    last = one.samples[-1]
    return Finding(
        title=f"{one.label} ended while memory was full",
        cause=f"{one.label} ({one.command[:80]}) held {size(last.held)} when {ceiling.name} was at "
        f"{size(used)} of {size(ceiling.limit_bytes)}; it was not seen after that. The kernel "
        "has likely killed it for memory.",
        confidence=Confidence.LIKELY,
        next_steps=(
            "dmesg -T | grep -i 'killed process'   says whom the kernel killed",
            "postmortem watch --read FILE --html FILE   shows who grew before",
        ),
        evidence=(
            Evidence(one.label, f"held {size(last.held)} at the last of {len(one.samples)} looks"),
            Evidence(ceiling.name, f"{size(used)} of {size(ceiling.limit_bytes)} in use then"),
        ),
        about=Subject(pid=one.pid, rank=one.rank, signal="SIGKILL"),
    )
