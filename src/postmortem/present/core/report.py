"""The report of a core."""

from postmortem.diagnose.rule import Outcome
from postmortem.facts.source import Problem, Source
from postmortem.facts.threads import Threads
from postmortem.present.core.body import core_body
from postmortem.present.core.view import CoreView
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
    view: CoreView,
    at_failure: Threads,
    source: Source,
    outcome: Outcome,
    problems: tuple[Problem, ...],
    shown: Shown,
) -> Report:
    """Return the report; `at_failure` are the threads before a handler ran."""
    threads = view.threads
    report = Report(
        kind="core",
        inputs=(source,),
        verdict=headline(view.signal, view.process, outcome.diagnoses, threads=at_failure),
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

        report = replace(report, highlights=core_highlights(view, at_failure))
    return report


def _has_values(threads: Threads) -> bool:
    frames = (frame for thread in threads for frame in thread.frames)
    return any(frame.arguments or frame.locals for frame in frames)
