"""What a watch of processes says first."""

from postmortem.facts.watch import Watching


def headline(seen: Watching, found: str | None) -> str:
    """Return who grows, or that nobody does; and whether all have ended."""
    if seen.ended:
        one = len(seen.asked or seen.processes) == 1
        return f"{_growth(seen, found)}; {'the process has' if one else 'all have'} ended"
    return _growth(seen, found)


def _growth(seen: Watching, found: str | None) -> str:
    if found is not None:
        return found
    count = len(seen.processes)
    who = "the process" if count == 1 else f"none of {count} processes"
    if max((len(one.samples) for one in seen.processes), default=0) < 8:
        return f"watched for {seen.seconds:.0f} s, which is too short to tell who grows"
    grew = "did not grow" if count == 1 else "grew"
    return f"{who} {grew} steadily within {seen.seconds:.0f} s"
