"""``postmortem logs``: from the logs of many ranks to a report."""

from collections.abc import Sequence

from postmortem.analyses.masking import Masking
from postmortem.analyses.places import report_with_source
from postmortem.diagnose import rule
from postmortem.diagnose.ranks.attribution import Attempts, Attribution
from postmortem.diagnose.ranks.deciding.attempts import decide_attempts
from postmortem.diagnose.stacks.classes import classes
from postmortem.facts.nccl import Nccl
from postmortem.facts.rank_logs import RankLogs
from postmortem.facts.versions import Versions
from postmortem.present.ranks.ended import cited_line
from postmortem.present.ranks.report import ranks_report, ranks_view
from postmortem.readers.kernel_log.of_ranks import with_kernel
from postmortem.readers.ranklogs.hung import read_flights, read_recorders, read_stacks
from postmortem.readers.ranklogs.pids import rank_pids
from postmortem.readers.ranklogs.read import RankFacts, read_rank_logs
from postmortem.readers.ranklogs.sources import Found, find_rank_logs
from postmortem.readers.ranklogs.splitting import own_folder, split
from postmortem.records import record, replace
from postmortem.report.model import Report


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


def analyse_and_split(
    names: Sequence[str], target: str, options: RankLogOptions
) -> tuple[Report, str]:
    """Return the report, and in one line what was written where."""
    folder = own_folder(target)
    found = find_rank_logs(names)
    read = read_rank_logs(found, world=options.world_size)
    said = split(read, found, folder, redact=options.redact)
    return report_on(read, options), said


def with_hung(found: Found, read: RankFacts) -> RankFacts:
    """Return the facts with what lies beside the logs."""
    sources, problems, logs = list(read.sources), list(read.problems), read.logs
    pids = rank_pids(logs) if found.dumps else ()
    ranks = {one.pid: one.rank for one in pids if one.own and one.rank is not None}
    stacks, workers = read_stacks(found.dumps, read.read, ranks, sources, problems)
    logs = replace(
        logs,
        stacks=classes(stacks, workers) if stacks else None,
        recorders=tuple(read_recorders(found.recorders, sources, problems, found.logs)),
        flights=tuple(read_flights(found.flights, sources, problems)),
    )
    logs = with_kernel(logs, found.kernel_logs, sources, problems)
    return replace(read, logs=logs, sources=tuple(sources), problems=tuple(problems))


def report_on(read: RankFacts, options: RankLogOptions) -> Report:
    """Return the report on logs that were read; dumps, which are large, hold no text to mask."""
    masking = Masking(redact=options.redact)
    small = masking.facts(replace(read.logs, recorders=(), flights=()))
    logs = replace(small, recorders=read.logs.recorders, flights=read.logs.flights)
    attempts = decide_attempts(logs)
    told, blame = logs.of_attempt(attempts.told), attempts.blame
    facts = {Attribution: blame, RankLogs: told, Attempts: attempts, Nccl: logs.nccl}
    outcome = rule.run(rule.load("ranks"), facts | {Versions: read.versions})
    excerpt = masking.facts(read.around(cited_line(outcome.diagnoses, told)))
    view, verbose = ranks_view(logs, attempts, read.left_out, excerpt), options.verbose
    report = ranks_report(view, outcome, read.sources, read.problems, read.forms, verbose=verbose)
    return masking.report(report_with_source(report))
