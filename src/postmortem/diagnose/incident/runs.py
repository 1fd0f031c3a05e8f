"""Of several runs that lie in one place: which is judged, and how the others ended."""

from collections.abc import Sequence

from postmortem.facts.inventory import Result, Run
from postmortem.records import record


@record
class RunEnd:
    """How one run ended, as the report on its logs says."""

    run: Run
    outcome: str
    verdict: str
    again: bool
    """A later run of its series began after its end: it was started again."""
    judged: bool


@record
class Runs:
    """All runs, in the order of their ends; none where there is only one."""

    ends: tuple[RunEnd, ...] = ()

    @property
    def failed(self) -> tuple[RunEnd, ...]:
        """The runs that failed, and were not started again."""
        return tuple(one for one in self.ends if one.outcome == "failed" and not one.again)


def runs_of(results: Sequence[Result]) -> Runs:
    """Return how each run ended; the last that failed is judged, else the last.

    One that was started again counts no more, unless all of them did.
    """
    told = [(r.reading.run, r.document) for r in results if r.reading.run and r.document]
    ends = [(run, one, _came_again(run, [other for other, _ in told])) for run, one in told]
    failed = [run for run, one, again in ends if one["outcome"] == "failed" and not again]
    last = [run for run, _, again in ends if not again]
    judged = next(iter([*failed[::-1], *last[::-1]]), None)
    return Runs(
        tuple(
            RunEnd(run, str(one["outcome"]), str(one["verdict"]), again, run is judged)
            for run, one, again in ends
        )
    )


def without_others(results: Sequence[Result], runs: Runs) -> tuple[Result, ...]:
    """Return the results without those of runs that are not judged."""
    judged = {one.run.name for one in runs.ends if one.judged}
    return tuple(
        result
        for result in results
        if result.reading.run is None or result.reading.run.name in judged
    )


def _came_again(run: Run, runs: Sequence[Run]) -> bool:
    return not run.sweep and any(
        other.series == run.series and other.began is not None and other.began > run.ended
        for other in runs
    )
