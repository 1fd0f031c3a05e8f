"""The fields of ``kind hang`` in the JSON report; threads are laid down as in ``kind core``."""

from __future__ import annotations

from postmortem.facts.blame import Blame
from postmortem.facts.live import Descriptor, LiveJob, LiveProcess, SystemCall, Task
from postmortem.facts.live_waits import waits_words
from postmortem.facts.threads import Frame, Thread, Wait
from postmortem.sections.activity import area, kind_of, role
from postmortem.sections.grouping import Group, groups
from postmortem.sections.quantities import address
from postmortem.sections.ranklogs_stacks import class_rows

_MOST_DESCRIPTORS = 1000


def hang_body(job: LiveJob, blame: Blame) -> dict[str, object]:
    """Return the fields of the report as plain JSON values."""
    return {
        "processes": [_process(one, job) for one in job.processes],
        "stacks": class_rows(job.stacks),
        "samples": job.samples,
        "gap_seconds": job.gap_seconds,
        "decided_by": blame.how.value,
        "stuck": [
            {"label": one.label, "rank": one.rank, "why": one.why, "pid": _pid(job, one.label)}
            for one in blame.first
        ],
        "candidates": [
            {"label": one.label, "rank": one.rank, "why": one.why, "pid": _pid(job, one.label)}
            for one in blame.candidates
        ],
        "missing_local_ranks": list(job.missing_local_ranks),
        "zombies": list(job.zombies),
    }


def _pid(job: LiveJob, label: str) -> int | None:
    process = job.process(label)
    return process.pid if process is not None else None


def _process(one: LiveProcess, job: LiveJob) -> dict[str, object]:
    found = groups(one.threads, one.executable)
    group_of = {tid: group.id for group in found for tid in group.tids}
    motion = job.motion(one.label) if one.of_pid is None else None
    return {
        "pid": one.pid,
        "ppid": one.ppid,
        "label": one.label,
        "rank": one.rank if one.of_pid is None else None,
        "local_rank": one.local_rank,
        "world_size": one.world_size,
        "launcher": one.launcher,
        "hostname": one.host,
        "role": one.role,
        "works_for": one.of_pid,
        "user": one.user,
        "state": one.state,
        "tracer": one.tracer,
        "executable": one.executable,
        "argv": list(one.argv),
        "python_version": one.python_version,
        "read_by": one.reading.way,
        "reading": one.reading.words,
        "stopped_seconds": round(one.reading.stopped_seconds, 6),
        "motion": None
        if motion is None
        else {
            "moved": motion.moved,
            "cpu_share": round(motion.cpu_share, 3),
            "switches": motion.switches,
        },
        "main_thread": one.pid,
        "threads": [_thread(thread, one, group_of.get(thread.tid)) for thread in one.threads],
        "groups": [_group(group) for group in found],
        "descriptors": [_descriptor(row) for row in one.descriptors[:_MOST_DESCRIPTORS]],
    }


def _thread(thread: Thread, one: LiveProcess, group: int | None) -> dict[str, object]:
    task = one.task(thread.tid)
    return {
        "tid": thread.tid,
        "name": thread.name,
        "python_name": thread.python_name,
        "role": role(thread, one.pid, one.executable),
        "crashed": False,
        "holds_gil": thread.holds_gil,
        "group": group,
        "python_exception": None,
        "waits_for": _wait(thread.waits_for),
        "does": waits_words(one, thread),
        **_task(task),
        "stopped": thread.stopped,
        "skipped_frames": thread.skipped,
        "skipped_at": thread.skipped_at,
        "frames": [_frame(frame, one.executable) for frame in thread.frames],
    }


def _task(task: Task | None) -> dict[str, object]:
    if task is None:
        return {"state": None, "wait_channel": None, "system_call": None, "kernel_stack": []}
    return {
        "state": task.state,
        "wait_channel": task.wait_channel,
        "system_call": None if task.call is None else _call(task.call),
        "kernel_stack": list(task.kernel_stack),
    }


def _call(call: SystemCall) -> dict[str, object]:
    return {
        "name": call.name,
        "arguments": [address(value) for value in call.arguments],
        "words": call.words,
        "fds": list(call.descriptors),
    }


def _frame(frame: Frame, executable: str | None) -> dict[str, object]:
    return {
        "kind": frame.kind,
        "function": frame.function,
        "pc": None if frame.pc is None else address(frame.pc),
        "module": frame.module,
        "file": frame.file,
        "line": frame.line,
        "inlined": frame.inlined,
        "note": kind_of(frame, executable).note,
        "area": area(frame, executable),
        "trust": str(frame.trust),
    }


def _wait(wait: Wait | None) -> dict[str, object] | None:
    if wait is None:
        return None
    return {
        "what": wait.what,
        "address": address(wait.address),
        "holder": wait.holder,
        "kind": wait.kind,
        "confidence": None if wait.holder is None else "certain" if wait.certain else "likely",
        "how": wait.how,
        "held_at": wait.held_at,
        "missing_owner": wait.missing_owner,
        "timed": wait.timed,
    }


def _group(group: Group) -> dict[str, object]:
    return {
        "id": group.id,
        "tids": list(group.tids),
        "summary": group.summary,
        "role": group.activity.role,
        "state": group.activity.state,
    }


def _descriptor(row: Descriptor) -> dict[str, object]:
    return {
        "fd": row.number,
        "target": row.target,
        "kind": row.kind,
        "detail": row.detail,
        "other_end": row.others,
    }
