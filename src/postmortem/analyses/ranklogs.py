"""``postmortem logs``: from the logs of many ranks to a report."""

from __future__ import annotations

from collections.abc import Sequence

from postmortem.analyses.masking import Masking
from postmortem.analyses.places import with_source
from postmortem.diagnose import rule
from postmortem.diagnose.ranks.attribution import Attempts, Attribution
from postmortem.diagnose.ranks.causes import CauseKind
from postmortem.diagnose.ranks.deciding.attempts import decide_attempts
from postmortem.diagnose.stacks.classes import classes
from postmortem.facts.nccl import Nccl
from postmortem.facts.rank_logs import RankLogs
from postmortem.facts.source import Problem, Source
from postmortem.facts.versions import Versions
from postmortem.present.headline.ranks import headline
from postmortem.present.ranks.blocks import rank_logs_blocks
from postmortem.present.ranks.body import rank_logs_body
from postmortem.present.ranks.card import ranks_highlights
from postmortem.present.ranks.ended import settled
from postmortem.present.ranks.view import RankLogsView, same_tracebacks
from postmortem.readers.ranklogs.hung import read_flights, read_recorders, read_stacks
from postmortem.readers.ranklogs.pids import rank_pids
from postmortem.readers.ranklogs.read import RankFacts, read_rank_logs
from postmortem.readers.ranklogs.sources import Found, find_rank_logs
from postmortem.records import record, replace
from postmortem.report.model import Report, Role
from postmortem.text import counted


@record
class RankLogOptions:
    """What the user asked for."""

    world_size: int | None = None
    verbose: bool = False
    redact: bool = True


def analyse(names: Sequence[str], options: RankLogOptions) -> Report:
    """Return the report on the logs of one job; raises EvidenceError when none can be read."""
    found = find_rank_logs(names)
    return report_on(with_hung(found, read_rank_logs(found, world=options.world_size)), options)


def with_hung(found: Found, read: RankFacts) -> RankFacts:
    """Return the facts with what lies beside the logs."""
    sources, problems = list(read.sources), list(read.problems)
    stacks = read_stacks(found.dumps, sources, problems)
    recorders = read_recorders(found.recorders, sources, problems)
    logs = replace(
        read.logs,
        stacks=classes(stacks) if stacks else None,
        recorders=tuple(recorders),
        flights=tuple(read_flights(found.flights, sources, problems)),
    )
    logs = with_kernel(logs, found.kernel_logs, sources, problems)
    return replace(read, logs=logs, sources=tuple(sources), problems=tuple(problems))


def with_kernel(
    logs: RankLogs, paths: Sequence[str], sources: list[Source], problems: list[Problem]
) -> RankLogs:
    """Return the facts with what kernels wrote, in files of their own or between other lines."""
    pids = rank_pids(logs.writers, logs.exits, logs.failures, logs.remarks, logs.flights)
    quoted = [r for r in logs.remarks if r.match("says-xid", "kernel-killed")]
    if not paths and not quoted:
        return replace(logs, pids=pids)
    from postmortem.readers.kernel_log.read import (
        events_of_remarks,
        host_in_name,
        read_kernel_logs,
    )

    hosts = {*logs.hosts, *(one.host for one in pids if one.host)}
    kernel = read_kernel_logs(paths, sources, problems)
    events = [
        replace(e, host=host_in_name(e.file, hosts)) if e.host is None else e for e in kernel.events
    ]
    events += events_of_remarks(quoted, {i: w.host for i, w in enumerate(logs.writers)})
    return replace(logs, pids=pids, kernel=replace(kernel, events=tuple(events)))


def report_on(read: RankFacts, options: RankLogOptions) -> Report:
    """Return the report on logs that were read."""
    masking = Masking(redact=options.redact)
    logs = _masked(read.logs, masking)
    attempts = decide_attempts(logs)
    blame = attempts.blame
    of_attempt = logs.of_attempt(attempts.told)
    facts: dict[type, object] = {Attribution: blame, RankLogs: of_attempt, Attempts: attempts}
    facts[Versions] = read.versions
    if logs.nccl is not None:
        facts[Nccl] = logs.nccl
    outcome = rule.run(rule.load("ranks"), facts)
    view = RankLogsView(
        logs=logs,
        blame=blame,
        tracebacks=same_tracebacks(f for f in logs.failures if f.kind != "ignored"),
        first=blame.first[0].failure if blame.first else None,
        attempts=attempts,
        left_out=read.left_out,
    )
    best = outcome.diagnoses[0] if outcome.diagnoses else None
    return masking.report(
        Report(
            kind="logs",
            inputs=read.sources,
            verdict=headline(view, best),
            failed=blame.how is not CauseKind.NOTHING
            or (best is not None and best.role is Role.ROOT),
            settled=settled(view, best),
            diagnoses=outcome.diagnoses,
            blocks=rank_logs_blocks(view, verbose=options.verbose),
            body=rank_logs_body(view, best.confidence if best is not None else None),
            problems=(*read.problems, *outcome.problems),
            skipped=outcome.skipped,
            footer=_footer(read),
            highlights=with_source(ranks_highlights(view, best)),
        )
    )


def _masked(logs: RankLogs, masking: Masking) -> RankLogs:
    """Return the facts masked; dumps of recorders and of numbers are large and hold no text."""
    small = masking.facts(replace(logs, recorders=(), flights=()))
    return replace(small, recorders=logs.recorders, flights=logs.flights)


def _footer(read: RankFacts) -> str:
    forms = f" · prefixes: {', '.join(read.forms)}" if read.forms else ""
    files = len(read.logs.files)
    kernel = len(read.logs.kernel.files)
    beside = f", {counted(read.logs.kernel.lines, 'line')} of kernel logs" if kernel else ""
    return f"{counted(read.logs.lines, 'line')} in {counted(files, 'file')}{beside}{forms}"
