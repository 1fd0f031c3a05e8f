"""What is said of several runs: how many failed, and how each ended."""

from collections.abc import Iterator

from postmortem.diagnose.incident.runs import RunEnd, Runs
from postmortem.diagnose.names import clip
from postmortem.report.blocks import Block, Table
from postmortem.text import counted

_ON_CARD = 4
_LONGEST = 110


def before_verdict(runs: Runs) -> str:
    """Return what stands before the verdict, which is that of the run that was judged."""
    judged = next((one for one in runs.ends if one.judged), None)
    if judged is None:
        return ""
    before = sum(one.outcome == "failed" and one.again for one in runs.ends)
    swept = any(one.run.sweep for one in runs.ends)  # what lies beside is none of its runs
    count = counted(sum(one.run.sweep or not swept for one in runs.ends), "run")
    suspect = len(runs.suspect)
    if len(runs.failed) > 1 or (runs.failed and not before):
        last = "the last of them, " if len(runs.failed) > 1 else ""
        perhaps = f", {suspect} may have" if suspect else ""
        return f"{len(runs.failed)} of {count} failed{perhaps}; {last}{_name(judged)}: "
    if judged.suspect and not before:
        last = "the last of them, " if suspect > 1 else ""
        return f"{suspect} of {count} may have failed; {last}{_name(judged)}: "
    failed = f", {before} of which failed before it" if before else ""
    return f"{_name(judged)}, the last of {count}{failed}: "


def card_rows(runs: Runs) -> Iterator[tuple[str, str]]:
    """Yield how the other runs that failed, or may have, ended: the last ones first."""
    bad = [one for one in reversed(runs.ends) if one.outcome == "failed" or one.suspect]
    others = sorted((one for one in bad if not one.judged), key=lambda one: one.suspect)
    for place, one in enumerate(others[:_ON_CARD]):
        yield "" if place else "others", f"{_name(one)}: {clip(one.verdict, _LONGEST)}"
    more = len(others) - _ON_CARD
    if more > 0:
        yield "", f"and {counted(more, 'more run')} that failed, or may have: -v lists them"


def runs_block(runs: Runs) -> Iterator[Block]:
    """Yield a table of all runs."""
    if runs.ends:
        rows = tuple(
            (_name(one), one.outcome + (", came again" if one.again else ""), one.verdict)
            for one in runs.ends
        )
        yield Table(("run", "outcome", "what its logs say"), rows, "runs")


def _name(one: RunEnd) -> str:
    """Return the last parts of the path, as many as tell the runs of a sweep."""
    return "/".join(one.run.name.rsplit("/", 2 if one.run.sweep else 1)[1:]) or one.run.name
