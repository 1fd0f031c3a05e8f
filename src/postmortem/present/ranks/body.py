"""The fields of ``kind logs`` in the JSON report, as docs/report-schema.md lays them down."""

from __future__ import annotations

from postmortem.diagnose.ranks.blame import Blame, Party
from postmortem.diagnose.ranks.causes import How
from postmortem.diagnose.ranks.jammed import weakest
from postmortem.facts.kernel_log import KernelEvent
from postmortem.facts.rank_logs import GroupPart, LogExit
from postmortem.present.ranks.attempts import attempts_body
from postmortem.present.ranks.jam import jam_body
from postmortem.present.ranks.network import nccl_body, network_rows
from postmortem.present.ranks.stacks import stack_body
from postmortem.present.ranks.view import RankLogsView, SameTraceback
from postmortem.report.model import Confidence

_MOST_LEFT_OUT = 100
_MOST_TRACEBACKS = 500
_MOST_KERNEL_EVENTS = 500
_MOST_PIDS = 100_000


def rank_logs_body(view: RankLogsView, confidence: Confidence | None) -> dict[str, object]:
    """Return the fields of the report; `confidence` is that of the best diagnosis."""
    logs = view.logs
    return {
        "ranks": [
            {
                "label": writer.label,
                "rank": writer.rank,
                "host": writer.host,
                "lines": writer.lines,
                "local_rank": writer.local_rank,
                "shared": writer.shared,
                "last_words": list(writer.last_words),
            }
            for writer in logs.writers
            if writer.lines or not writer.shared
        ],
        "tracebacks": [_traceback(view, same) for same in view.tracebacks[:_MOST_TRACEBACKS]],
        "first_failure": _first(view, confidence),
        "candidates": [_party(party) for party in view.blame.candidates],
        "victims": [_party(party) for party in view.blame.victims],
        "also_failed": [_also(party) for party in view.blame.also],
        "decided_by": view.blame.how.value,
        "whole_host": view.blame.whole_host,
        "world_size": logs.world_size,
        "world_size_source": logs.world_source,
        "hosts": list(logs.hosts),
        "exits": [_exit(end) for end in logs.exits],
        "pids": [
            {"rank": one.rank, "pid": one.pid, "host": one.host, "own": one.own, "how": one.how}
            for one in logs.pids[:_MOST_PIDS]
        ],
        "launcher_blames": list(view.blame.blamed),
        "network": [{"what": what, "value": value} for what, value in network_rows(logs.nccl)],
        "nccl": nccl_body(logs),
        "attempts": attempts_body(view.attempts),
        "kernel_events": [
            _kernel_event(tie.event, tie.by.value, tie.ranks)
            for tie in view.blame.ties[:_MOST_KERNEL_EVENTS]
        ],
        "lines": logs.lines,
        "left_out": [
            {"reason": reason, "count": len(files), "files": files[:_MOST_LEFT_OUT]}
            for reason, files in view.left_out_by_reason().items()
        ],
        **jam_body(view),
        **stack_body(logs),
    }


def _traceback(view: RankLogsView, same: SameTraceback) -> dict[str, object]:
    failure = same.failure
    return {
        "exception": failure.said.exception,
        "message": failure.said.message,
        "text": failure.text,
        "attempt": failure.attempt,
        "labels": [view.logs.who(writer).label for writer in same.writers],
        "count": same.count,
        "kind": failure.kind,
        "file": failure.file,
        "line": failure.begin_line,
        "causes": [{"exception": s.exception, "message": s.message} for s in failure.causes],
        "parts": [{"exception": s.exception, "message": s.message} for s in failure.parts],
        "group": _group(failure.group) if failure.group is not None else None,
        "native_frames": [
            {
                "function": f.function,
                "module": f.module,
                "file": f.file,
                "line": f.line,
                "address": f.address,
            }
            for f in failure.native
        ],
        "frames": [
            {"file": f.file, "line": f.line, "function": f.function, "code": f.code}
            for f in failure.frames
        ],
    }


def _group(part: GroupPart) -> dict[str, object]:
    return {
        "exception": part.said.exception,
        "message": part.said.message,
        "causes": [{"exception": s.exception, "message": s.message} for s in part.causes],
        "parts": [_group(one) for one in part.parts],
    }


def _first(view: RankLogsView, confidence: Confidence | None) -> dict[str, object] | None:
    blame = view.blame
    if not blame.first:
        return None
    party = blame.first[0]
    file, line = _place(view, party, blame)
    return {
        "label": party.label,
        "rank": party.rank,
        "host": party.host,
        "what": party.why,
        "file": file,
        "line": line,
        "confidence": _confidence(blame, confidence),
        "ranks": sorted(p.rank for p in (*blame.first, *blame.also) if p.rank is not None),
    }


def _confidence(blame: Blame, best: Confidence | None) -> str:
    """Return the confidence in all that failed first: the weakest of several culprits'."""
    if blame.how is How.RECORDED and blame.jam is not None:
        return weakest(one.sure for one in blame.jam.culprits).value
    return (best or Confidence.POSSIBLE).value


def _place(view: RankLogsView, party: Party, blame: Blame) -> tuple[str, int]:
    """Return where the best evidence stands: of who says nothing, what others say."""
    if party.failure is not None:
        return party.failure.file, party.failure.line
    if party.exit is not None:
        return party.exit.file, party.exit.line
    if blame.evidence:
        file, _, line = blame.evidence[0][0].rpartition(":")
        if line.isdecimal():
            return file, int(line)
        if blame.how in (How.STACK, How.RECORDED, How.NUMBERS):
            return blame.evidence[0][0], 1
    return (view.logs.files[0] if view.logs.files else ""), 0


def _also(party: Party) -> dict[str, object]:
    assert party.failure is not None
    return {**_party(party), "file": party.failure.file, "line": party.failure.line}


def _party(party: Party) -> dict[str, object]:
    return {"rank": party.rank, "label": party.label, "why": party.why, "host": party.host}


def _kernel_event(event: KernelEvent, by: str, ranks: tuple[int, ...]) -> dict[str, object]:
    return {
        "kind": event.kind.value,
        "signature": event.signature,
        "fault": event.fault.value,
        "what": event.words,
        "text": event.text,
        "file": event.file,
        "line": event.line,
        "host": event.host,
        "time": event.time,
        "uptime": event.uptime,
        "pid": event.pid,
        "process": event.process,
        "xid": event.number if event.signature == "xid" else None,
        "device": event.device,
        "signal": event.signal,
        "place": event.place,
        "stack": list(event.stack),
        "count": event.count,
        "joined_by": by,
        "ranks": list(ranks),
    }


def _exit(end: LogExit) -> dict[str, object]:
    return {
        "rank": end.rank,
        "local_rank": end.local_rank,
        "pid": end.pid,
        "host": end.host,
        "code": end.code,
        "signal": end.signal,
        "launcher": end.launcher,
        "file": end.file,
        "line": end.line,
    }
