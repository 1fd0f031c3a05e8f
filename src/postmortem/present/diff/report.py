"""The report on where two trainings part."""

from postmortem.diagnose.numerics.parting import Difference, Parting
from postmortem.facts.source import Problem, Source
from postmortem.present.headline.diff import headline, module_words
from postmortem.report.blocks import Table
from postmortem.report.card import Highlights
from postmortem.report.contract import fill
from postmortem.report.contract.diff import Diff
from postmortem.report.model import Outcome, Report


def diff_report(
    found: Parting, inputs: tuple[Source, ...], problems: tuple[Problem, ...]
) -> Report:
    """Return the report on two files that were compared."""
    first = found.first
    rows = tuple(_row(one) for one in found.worst)
    parts = [Table(("module", "tensor", "differs", "relative"), rows, title="what differs most")]
    for name, alone in (("A", found.only_a), ("B", found.only_b)):
        if alone:
            parts.append(Table((f"only in {name}",), tuple((one,) for one in alone)))
    return Report(
        kind="diff",
        inputs=inputs,
        verdict=headline(found),
        failed=first is not None,
        diagnoses=(),
        blocks=tuple(one for one in parts if one.rows),
        body=fill(Diff, found),
        problems=problems,
        footer=(f"{found.compared} calls compared, tolerance {found.tolerance:g}",),
        settled=None if first is not None else Outcome.HEALTHY,
        highlights=_highlights(found),
    )


def _row(one: Difference) -> tuple[str, ...]:
    where = f"{one.name}, batch {one.batch}, {one.phase}"
    return (module_words(one), where, one.what, f"{one.relative:.2g}")


def _highlights(found: Parting) -> Highlights:
    first, rows = found.first, []
    steps: tuple[str, ...] = ()
    if first is not None:
        rows.append((f"batch {first.batch}", f"{first.phase}: {_cause(first, found.beside)}"))
        rows += [(one.name, one.what) for one in found.beside[:3]]
        steps = (_step(first),)
    if found.unequal is not None and found.unequal != first:
        one = found.unequal
        rows.append(("first of all", f"{module_words(one)}: {one.name}, {one.what}"))
    for name, alone in (("only in A", found.only_a), ("only in B", found.only_b)):
        if alone:
            rows.append((name, ", ".join(alone[:6])))
    return Highlights(rows=tuple(rows), steps=steps)


def _cause(first: Difference, beside: tuple[Difference, ...]) -> str:
    """Return what can be said of a call by which of its tensors differ."""
    kinds = {first.kind, *(one.kind for one in beside)}
    if "weight" in kinds:
        return "its weights differ already"
    if "input" in kinds:
        return "what came in differs already, and nothing before it in these files does"
    if first.kind == "output":
        return "from inputs and weights with the same extremes it makes another output"
    return f"its {first.kind} differs first"


def _step(first: Difference) -> str:
    if first.kind == "weight":
        return "compare the checkpoints and seeds that both began with"
    if first.kind == "input" and first.phase == "forward":
        return "compare the data and its order, and what runs outside of modules"
    who = module_words(first)
    return f"run {who} alone on the same input in both: kernel, dtype, dropout, library"
