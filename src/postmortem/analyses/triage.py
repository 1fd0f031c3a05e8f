"""``postmortem triage``: all evidence under some paths, one verdict."""

import contextlib
from collections.abc import Callable, Sequence

from postmortem import underway
from postmortem.diagnose.incident.damaged import raised_in_reading
from postmortem.diagnose.incident.incident import judge
from postmortem.diagnose.incident.runs import runs_of, without_others
from postmortem.errors import EvidenceError
from postmortem.facts.source import Source
from postmortem.present.triage.report import triage_report
from postmortem.present.triage.used import nothing, problems_of, used
from postmortem.readers.all_evidence import plan, take_evidence
from postmortem.readers.log_clock import by_clock
from postmortem.readers.opening import terminations_unwind
from postmortem.readers.own_reports import own_results
from postmortem.readers.side_by_side import read_side_by_side, with_unread
from postmortem.readers.signatures import Signatures
from postmortem.records import record
from postmortem.report.model import Report
from postmortem.report.strings import replaced


@record
class TriageOptions:
    """What the user asked for."""

    world_size: int | None = None
    verbose: bool = False
    redact: bool = True


def analyse(
    names: Sequence[str], options: TriageOptions, progress: Callable[[str], None] | None = None
) -> Report:
    """Return the report on all evidence; raises EvidenceError where there is none."""
    with terminations_unwind(), contextlib.ExitStack() as undo:
        evidence = take_evidence(names, undo)
        readings, left = plan(
            evidence.found, evidence.roots, world_size=options.world_size, redact=options.redact
        )
        own = tuple(own_results(evidence.found))
        underway.thinking()  # what is read from here on is read by others
        results = (*own, *read_side_by_side(readings, progress))
    found = evidence.found
    documents = [result.document for result in results if result.document is not None]
    if not documents:
        error = nothing(names, results, found, evidence.problems)
        raise EvidenceError(error.where, error.what, hint=evidence.named(error.hint or ""))
    runs = runs_of(results)
    told = without_others(results, runs)
    if any(map(raised_in_reading, documents)):
        told = with_unread(told)
    documents = [result.document for result in told if result.document is not None]
    clock = by_clock(told, evidence.found)
    known_in = Signatures.load("process text").matches
    judged = judge(documents, known_in, clock.outdated, clock.of_the_end)
    files = used(found, results, told, left, judged)
    report = triage_report(
        judged,
        documents,
        tuple(files.values()),
        runs,
        inputs=tuple(Source(i.path, i.size_bytes) for i in found.items if files[i.path].used),
        problems=(*evidence.problems, *problems_of(results, found)),
        read=all(one.document is not None for one in told if one.reading.kind != "scan"),
        verbose=options.verbose,
    )
    if not evidence.archives:
        return report
    named = evidence.named
    return replaced(report, named, lambda words: tuple(map(named, words)))
