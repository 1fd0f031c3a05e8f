"""What is used of a memory limit grows towards it, or has reached it.

What it means
    If it goes on like this, the kernel kills a process of the job (SIGKILL) when the limit is
    reached: that of its cgroup, or the memory of the machine.
How to be sure
    The forecast is a straight line through what was seen; a program that only loads stops.
What to do
    Find who grows, or give the job more memory.
"""

import time
from collections.abc import Sequence

from postmortem import thresholds
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.diagnose.watch.growing import growing, growth_words
from postmortem.facts.watch import MIB, Ceiling, Trend, Watched, Watching, growth
from postmortem.text import size


@rule()
def memory_will_run_out(seen: Watching) -> Findings:
    for ceiling in seen.ceilings:
        found = _forecast(ceiling, growing(seen))
        if found is not None:
            yield found
            return  # the nearest limit first; the others come later


def _forecast(ceiling: Ceiling, growers: Sequence[tuple[Watched, Trend]]) -> Finding | None:
    last_at, last = ceiling.used[-1]
    share = last / ceiling.limit_bytes if ceiling.limit_bytes else 0.0
    rising = growth([(at, float(used)) for at, used in ceiling.used], 16 * MIB)
    evidence = [
        Evidence(ceiling.name, f"{size(last)} of {size(ceiling.limit_bytes)} in use ({share:.0%})")
    ]
    if rising is None:
        if share < thresholds.ALMOST_FULL_SHARE:
            return None
        when, confidence = "is all but used up", Confidence.POSSIBLE
    else:
        left = max(0.0, ceiling.limit_bytes - last) / rising.per_second
        if left > thresholds.FORECAST_SECONDS:
            return None
        clock = time.strftime("%H:%M", time.localtime(last_at + left))
        when = f"will be used up in {_words(left)}, at {clock}, if it goes on like this"
        confidence = Confidence.LIKELY if rising.seconds >= 60 else Confidence.POSSIBLE
        rate = rising.per_second * 60 / MIB
        evidence.append(
            Evidence(ceiling.name, f"grows by {rate:,.1f} MiB a minute over {rising.seconds:.0f} s")
        )
    who = f"{growth_words(*growers[0])}. " if growers else ""
    return Finding(
        title=f"{ceiling.name} {when}",
        cause=f"{who}At the limit the kernel kills a process.",
        confidence=confidence,
        next_steps=(
            "look at what that line keeps; or give the job more memory"
            if growers and growers[0][0].lines
            else "find what grows, or give the job more memory",
            "afterwards, the kernel's log tells who was killed",
        ),
        evidence=tuple(evidence),
    )


def _words(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
