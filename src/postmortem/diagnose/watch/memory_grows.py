"""A process holds more and more memory of its own, steadily.

What it means
    What it took it did not give back while it was watched: a leak, a cache, a list of losses
    with their graphs, or a program that is still loading.
How to be sure
    Watch it over many steps: a leak grows by as much each time. The line named is where its
    main thread stood when it had just grown, which is likely where it allocates, not proof.
What to do
    Look at what that line keeps. `tracemalloc` tells who allocated Python's part of it,
    PyTorch's memory snapshot what tensors hold.
"""

from postmortem import thresholds
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.diagnose.watch.growing import growing, rate_words
from postmortem.facts.watch import MIB, Trend, Watched, Watching
from postmortem.text import size

_MOST = 8


@rule(role=Role.CONTRIBUTING)
def memory_grows(seen: Watching) -> Findings:
    for one, found in growing(seen)[:_MOST]:
        yield _finding(one, found)


def _where(one: Watched) -> str:
    if not one.lines:
        return "It was not seen where it allocates"
    line, count = one.lines[0]
    return f"Likely at {line}, where it stood {count} of {one.looks} times when it had grown"


def _finding(one: Watched, found: Trend) -> Finding:
    first, last = one.samples[0], one.samples[-1]
    evidence = [
        Evidence(
            one.label,
            f"{size(first.held)} at first, {size(last.held)} {found.seconds:.0f} s later; a "
            f"straight line explains {found.fit:.0%} of it",
        )
    ]
    kinds = (
        ("own memory", first.anonymous_bytes, last.anonymous_bytes),
        ("shared", first.shared_bytes, last.shared_bytes),
    )
    if last.shared_bytes - first.shared_bytes > MIB:
        evidence += [
            Evidence(one.label, f"{name}: {size(before)} to {size(after)}")
            for name, before, after in kinds
        ]
    evidence += [
        Evidence(one.label, f"stood at {row} {number} of {one.looks} times")
        for row, number in one.lines[1:4]
    ]
    return Finding(
        title=f"{one.label} grows by {rate_words(found)}",
        cause=f"{_where(one)}.",
        confidence=Confidence.LIKELY
        if found.seconds >= thresholds.GROWTH_SECONDS
        else Confidence.POSSIBLE,
        next_steps=(
            "watch it for longer, over many steps: what only loads stops growing",
            "python -X tracemalloc=10 and tracemalloc.take_snapshot() name what allocated it",
        ),
        evidence=tuple(evidence),
    )
