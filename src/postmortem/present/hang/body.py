"""The fields of ``kind hang`` in the JSON report; threads are laid down as in ``kind core``."""

from __future__ import annotations

from postmortem.diagnose.hang.live_waits import waits_words
from postmortem.diagnose.ranks.blame import Blame
from postmortem.diagnose.stacks.groups import groups
from postmortem.facts.live import Descriptor, LiveJob, LiveProcess, SystemCall, Task
from postmortem.facts.threads import Thread
from postmortem.present.core.thread_body import ThreadBodies, group_body
from postmortem.present.ranks.stacks import class_rows
from postmortem.text import address

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
    bodies = ThreadBodies(one.pid, one.executable)
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
        "threads": [
            _thread(thread, one, bodies.of(thread, group_of.get(thread.tid)))
            for thread in one.threads
        ],
        "groups": [group_body(group) for group in found],
        "descriptors": [_descriptor(row) for row in one.descriptors[:_MOST_DESCRIPTORS]],
    }


def _thread(thread: Thread, one: LiveProcess, body: dict[str, object]) -> dict[str, object]:
    frames = body.pop("frames")
    return {
        **body,
        "does": waits_words(one, thread),
        **_task(one.task(thread.tid)),
        "frames": frames,
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


def _descriptor(row: Descriptor) -> dict[str, object]:
    return {
        "fd": row.number,
        "target": row.target,
        "kind": row.kind,
        "detail": row.detail,
        "other_end": row.others,
    }
