"""Which processes grow, and the words for it."""

from postmortem.facts.watch import MIB, Trend, Watched, Watching, growth


def growing(seen: Watching) -> list[tuple[Watched, Trend]]:
    """Return the processes that grow, with how; the fastest first."""
    grown = []
    for one in seen.processes:
        points = [(sample.time, float(sample.held)) for sample in one.samples]
        if (found := growth(points)) is not None:
            grown.append((one, found))
    return sorted(grown, key=lambda pair: -pair[1].per_second)


def rate_words(found: Trend) -> str:
    """Return how fast."""
    return f"{found.per_second * 60 / MIB:,.1f} MiB a minute"


def growth_words(one: Watched, found: Trend) -> str:
    """Return who grows, how fast, and at which line if that was seen."""
    where = ""
    if one.lines:
        line, count = one.lines[0]
        where = f"; likely at {line}, where it stood {count} of {one.looks} times when it had grown"
    return f"{one.label} ({one.command[:80]}) grows by {rate_words(found)}{where}"
