"""``postmortem import``: why an import fails, crashes or takes long."""

from postmortem.diagnose import rule
from postmortem.facts.importing import Importing
from postmortem.present.headline.importing import headline
from postmortem.report.blocks import Table
from postmortem.report.card import Highlights
from postmortem.report.contract import fill
from postmortem.report.contract.importing import Importing as Body
from postmortem.report.model import Outcome, Report, ordered

_SHOWN = 12


def analyse(name: str, *, python: str | None = None, seconds: float) -> Report:
    """Import it in a child, and return the report; raises EvidenceError."""
    from postmortem.readers.importing import import_in_child

    return report_on(import_in_child(name, python=python, seconds=seconds))


def report_on(seen: Importing) -> Report:
    """Return the report on one import."""
    outcome = rule.run(rule.load("importing"), {Importing: seen})
    diagnoses = ordered(outcome.diagnoses)
    failed = seen.file is None
    dear = [cost for cost in seen.costs if cost.own >= 0.001][:_SHOWN]
    rows = tuple((cost.name, f"{cost.own:.3f}", f"{cost.total:.3f}") for cost in dear)
    blocks = (Table(("module", "own s", "total s"), rows, title="dearest imports"),) if rows else ()
    best = diagnoses[0].title if failed and diagnoses else None
    return Report(
        kind="importing",
        inputs=(),
        verdict=best or headline(seen),
        failed=failed,
        diagnoses=diagnoses,
        blocks=blocks,
        body=fill(Body, seen),
        problems=outcome.problems,
        skipped=outcome.skipped,
        footer=(f"{seen.seconds:.2f} s in {seen.python}",),
        settled=None if failed else Outcome.HEALTHY,
        highlights=None if failed else _highlights(rows),
    )


def _highlights(rows: tuple[tuple[str, str, str], ...]) -> Highlights:
    return Highlights(rows=tuple((name, f"{own} s") for name, own, _ in rows[:4]))
