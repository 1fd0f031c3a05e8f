"""The fields of ``kind logs`` in the JSON report."""

from postmortem.diagnose.ranks.attribution import Attribution, Suspect
from postmortem.diagnose.ranks.cause_kinds import CauseKind
from postmortem.diagnose.ranks.kernel_matches import KernelMatch
from postmortem.facts.confidence import weakest
from postmortem.facts.last_lines import LogExcerpt
from postmortem.facts.rank_logs import GroupPart
from postmortem.present.headline.by_cause import meaning_of
from postmortem.present.ranks.attempts import attempts_body
from postmortem.present.ranks.ended import came_to_its_end
from postmortem.present.ranks.jam import jam_body
from postmortem.present.ranks.network import nccl_body, network_rows
from postmortem.present.ranks.stacks import stack_body
from postmortem.present.ranks.view import RankLogsView, SameTraceback
from postmortem.report.contract import fill
from postmortem.report.contract import logs as shapes
from postmortem.report.model import Confidence

_MOST_LEFT_OUT = 100
_MOST_TRACEBACKS = 500
_MOST_KERNEL_EVENTS = 500
_MOST_PIDS = 100_000


def rank_logs_body(view: RankLogsView, confidence: Confidence | None) -> dict[str, object]:
    """Return the fields of the report; `confidence` is that of the best diagnosis."""
    logs = view.logs
    blame = view.blame
    return fill(
        shapes.Logs,
        logs,
        ranks=[fill(shapes.Writer, one) for one in logs.writers if one.lines or not one.shared],
        tracebacks=[_traceback(view, same) for same in view.tracebacks[:_MOST_TRACEBACKS]],
        first_failure=_first(view, confidence),
        candidates=blame.candidates,
        victims=blame.victims,
        also_failed=[_also(party) for party in blame.also],
        decided_by=blame.how,
        whole_host=blame.whole_host,
        world_size_source=logs.world_source,
        pids=logs.pids[:_MOST_PIDS],
        excerpt=_excerpt(view.excerpt),
        done=came_to_its_end(logs),
        launcher_blames=blame.blamed,
        network=[{"what": what, "value": value} for what, value in network_rows(logs.nccl)],
        nccl=nccl_body(logs),
        attempts=attempts_body(view.attempts),
        kernel_events=[_kernel_event(tie) for tie in blame.ties[:_MOST_KERNEL_EVENTS]],
        left_out=[
            {"reason": reason, "count": len(files), "files": files[:_MOST_LEFT_OUT]}
            for reason, files in view.left_out_by_reason().items()
        ],
        **jam_body(view),
        **stack_body(logs),
    )


def _excerpt(found: LogExcerpt | None) -> dict[str, object] | None:
    if found is None:
        return None
    rows = [{"line": line, "text": text} for line, text in found.rows]
    return fill(shapes.LogExcerpt, found, lines=rows)


def _traceback(view: RankLogsView, same: SameTraceback) -> dict[str, object]:
    failure = same.failure
    return fill(
        shapes.Traceback,
        failure,
        exception=failure.said.exception,
        message=failure.said.message,
        labels=[view.logs.who(writer).label for writer in same.writers],
        count=same.count,
        line=failure.begin_line,
        survived=failure.work is not None,
        group=None if failure.group is None else _group(failure.group),
        native_frames=failure.native,
    )


def _group(part: GroupPart) -> dict[str, object]:
    return fill(
        shapes.GroupPart, part.said, causes=part.causes, parts=[_group(one) for one in part.parts]
    )


def _first(view: RankLogsView, confidence: Confidence | None) -> dict[str, object] | None:
    blame = view.blame
    if not blame.first:
        return None
    party = blame.first[0]
    file, line = _place(view, party, blame)
    return fill(
        shapes.FirstFailure,
        party,
        what=party.why,
        means=meaning_of(party.failure),
        file=file,
        line=line,
        confidence=_confidence(blame, confidence),
        ranks=sorted(p.rank for p in (*blame.first, *blame.also) if p.rank is not None),
    )


def _confidence(blame: Attribution, best: Confidence | None) -> str:
    """Return the confidence in all that failed first: the weakest of several culprits'."""
    if blame.how is CauseKind.RECORDED and blame.jam is not None:
        return weakest(one.sure for one in blame.jam.culprits).value
    return (best or Confidence.POSSIBLE).value


def _place(view: RankLogsView, party: Suspect, blame: Attribution) -> tuple[str, int]:
    """Return where the best evidence stands: of who says nothing, what others say."""
    if party.failure is not None:
        return party.failure.file, party.failure.line
    if party.exit is not None:
        return party.exit.file, party.exit.line
    if blame.evidence:
        file, _, line = blame.evidence[0][0].rpartition(":")
        if line.isdecimal():
            return file, int(line)
        if blame.how in (CauseKind.STACK, CauseKind.RECORDED, CauseKind.NUMBERS):
            return blame.evidence[0][0], 1
    return (view.logs.files[0] if view.logs.files else ""), 0


def _also(party: Suspect) -> dict[str, object]:
    told = party.failure or party.exit
    assert told is not None
    raised = party.failure is not None
    return fill(shapes.AlsoFailed, party, file=told.file, line=told.line, raised=raised)


def _kernel_event(tie: KernelMatch) -> dict[str, object]:
    event = tie.event
    return fill(
        shapes.KernelEvent,
        event,
        what=event.words,
        xid=event.number if event.signature == "xid" else None,
        joined_by=tie.by,
        ranks=tie.ranks,
        outlived=tie.outlived,
    )
