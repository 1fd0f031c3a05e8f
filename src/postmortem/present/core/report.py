"""The report of a core."""

from postmortem.diagnose.core.case import CoreCase
from postmortem.diagnose.rule import Outcome
from postmortem.facts.source import Problem, Source
from postmortem.facts.threads import Threads
from postmortem.present.core.body import core_body
from postmortem.present.core.view import core_view
from postmortem.present.headline.core import headline
from postmortem.records import record, replace
from postmortem.report.model import Report, Role


@record
class Shown:
    """How much of a core is shown."""

    verbose: bool = False
    all_threads: bool = False
    with_locals: bool = False
    blocks: bool = True
    """Whether the report is to be read; JSON needs only its body.

    Where gdb told values of variables there are blocks all the same: secrets are learnt there.
    """


def core_report(
    case: CoreCase,
    threads: Threads,
    source: Source,
    outcome: Outcome,
    problems: tuple[Problem, ...],
    shown: Shown,
    asked_tid: int | None = None,
) -> Report:
    """Return the report; `threads` are those of the end, `asked_tid` the one to begin with."""
    view = core_view(case, threads, outcome.diagnoses, asked_tid=asked_tid)
    report = Report(
        kind="core",
        inputs=(source,),
        verdict=headline(view.signal, view.process, outcome.diagnoses, threads=case.threads),
        failed=threads.crashed is not None
        or not threads.items
        or any(d.role is Role.ROOT for d in outcome.diagnoses),
        diagnoses=outcome.diagnoses,
        blocks=(),
        body=core_body(view, with_locals=shown.with_locals),
        problems=(*problems, *outcome.problems),
        skipped=outcome.skipped,
    )
    if shown.blocks or _has_values(threads):
        from postmortem.present.core.blocks import core_blocks  # not paid for by --json

        blocks = core_blocks(
            view,
            verbose=shown.verbose,
            all_threads=shown.all_threads,
            with_locals=shown.with_locals,
        )
        report = replace(report, blocks=blocks)
    if shown.blocks:
        from postmortem.present.core.card import core_highlights

        report = replace(report, highlights=core_highlights(view, case.threads))
    return report


def _has_values(threads: Threads) -> bool:
    frames = (frame for thread in threads for frame in thread.frames)
    return any(frame.arguments or frame.locals for frame in frames)
