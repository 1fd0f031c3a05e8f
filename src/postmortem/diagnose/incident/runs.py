"""Of several runs that lie in one place: which is judged, and how the others ended."""

from collections.abc import Sequence

from postmortem.diagnose.incident.common import Document, root_of
from postmortem.facts.inventory import LISTED, SET_ASIDE, Result, Run, came_again
from postmortem.records import record


@record
class RunEnd:
    """How one run ended, as the report on its logs says."""

    run: Run
    outcome: str
    suspect: bool
    """Nothing says that it failed, nor that it did not, and a line comes near to an error."""
    verdict: str
    again: bool
    """A later run of its series began after its end: it was started again."""
    judged: bool
    done: bool
    """It says that it came to its end."""


@record
class Runs:
    """All runs, in the order of their ends; none where there is only one."""

    ends: tuple[RunEnd, ...] = ()

    @property
    def failed(self) -> tuple[RunEnd, ...]:
        """The runs that failed, and were not started again."""
        return tuple(one for one in self.ends if one.outcome == "failed" and not one.again)

    @property
    def suspect(self) -> tuple[RunEnd, ...]:
        """The runs of which nobody knows how they ended, but for a line like an error."""
        return tuple(one for one in self.ends if one.suspect and not one.again)

    @property
    def alike(self) -> int:
        """How many runs of its series failed in the words of the one that is judged, itself too."""
        found = {one.run.series: one.verdict for one in self.ends if one.judged}
        return sum(found.get(one.run.series) == one.verdict for one in self.failed)

    @property
    def done(self) -> RunEnd | None:
        """The last run of the series of the one that is judged which did well, of no sweep."""
        series = {one.run.series for one in self.ends if one.judged and not one.run.sweep} - {""}
        return next((o for o in self.ends[::-1] if o.done and o.run.series in series), None)


def runs_of(results: Sequence[Result]) -> Runs:
    """Return how each run ended; the last that failed is judged, else one that may have.

    One that was started again counts no more, unless all of them did; nor does one in a folder of
    old ones, where the others tell how they ended. What lies beside runs, and only has words that
    something failed, is none: who watched them wrote it. Nor is a list of them, where one failed.
    """
    logs = (r for r in results if r.reading.kind == "logs")
    told = [(r.reading.run, r.document) for r in logs if r.reading.run and r.document]
    beside = ("", SET_ASIDE, LISTED)
    if any(one["outcome"] == "failed" for run, one in told if run.series not in beside):
        told = [(run, one) for run, one in told if run.series or one["decided_by"] != "last words"]
        told = [(run, one) for run, one in told if run.series != LISTED]
    over = any(
        one["outcome"] == "failed" or one.get("done")
        for run, one in told
        if run.series != SET_ASIDE
    )
    ends = [
        (run, one, over if run.series == SET_ASIDE else came_again(run, [r for r, _ in told]))
        for run, one in told
    ]
    failed = [run for run, one, again in ends if one["outcome"] == "failed" and not again]
    suspect = [run for run, one, again in ends if _is_suspect(one) and not again]
    last = [run for run, _, again in ends if not again] or [run for run, *_ in ends]
    judged = next(iter([*failed[::-1], *suspect[::-1], *last[::-1]]), None)
    return Runs(
        tuple(
            RunEnd(
                run,
                str(one["outcome"]),
                _is_suspect(one),
                str(one["verdict"]),
                again,
                run is judged,
                one["outcome"] != "failed" and bool(one.get("done")),
            )
            for run, one, again in ends
        )
    )


def _is_suspect(document: Document) -> bool:
    return document["outcome"] == "unknown" and root_of(document) is not None


def without_others(results: Sequence[Result], runs: Runs) -> tuple[Result, ...]:
    """Return the results without those of runs that are not judged."""
    others = {one.run.name for one in runs.ends if not one.judged}
    return tuple(
        result
        for result in results
        if result.reading.run is None or result.reading.run.name not in others
    )
