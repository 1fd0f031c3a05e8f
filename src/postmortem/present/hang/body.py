"""The fields of ``kind hang`` in the JSON report; threads are laid down as in ``kind core``."""

from postmortem.diagnose.hang.live_waits import waits_words
from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.stacks.groups import groups
from postmortem.facts.live import HotPath, LiveJob, LiveProcess
from postmortem.facts.threads import Thread
from postmortem.present.core.thread_body import ThreadBodies, group_body
from postmortem.present.ranks.stacks import class_rows
from postmortem.report.contract import fill
from postmortem.report.contract import hang as shapes

_MOST_DESCRIPTORS = 1000


def hang_body(job: LiveJob, blame: Attribution) -> dict[str, object]:
    """Return the fields of the report as plain JSON values."""
    return fill(
        shapes.Hang,
        job,
        processes=[_process(one, job) for one in job.processes],
        stacks=class_rows(job.stacks),
        decided_by=blame.how,
        stuck=[fill(shapes.Stuck, one, pid=_pid(job, one.label)) for one in blame.first],
        candidates=[fill(shapes.Stuck, one, pid=_pid(job, one.label)) for one in blame.candidates],
    )


def _pid(job: LiveJob, label: str) -> int | None:
    process = job.process(label)
    return process.pid if process is not None else None


def _process(one: LiveProcess, job: LiveJob) -> dict[str, object]:
    found = groups(one.threads, one.executable)
    group_of = {tid: group.id for group in found for tid in group.tids}
    bodies = ThreadBodies(one.pid, one.executable)
    motion = job.motion(one.label) if one.works_for is None else None
    return fill(
        shapes.LiveProcess,
        one,
        rank=one.rank if one.works_for is None else None,
        read_by=one.reading.way,
        reading=one.reading.words,
        stopped_seconds=round(one.reading.stopped_seconds, 6),
        motion=None
        if motion is None
        else fill(shapes.Motion, motion, cpu_share=round(motion.cpu_share, 3)),
        hot_path=_hot_path(job.hot_path(one.pid)),
        main_thread=one.pid,
        threads=[
            _thread(thread, one, bodies.of(thread, group_of.get(thread.tid)))
            for thread in one.threads
        ],
        groups=[group_body(group) for group in found],
        async_tasks=one.threads.async_tasks,
        greenlets=one.threads.greenlets,
        descriptors=one.descriptors[:_MOST_DESCRIPTORS],
    )


def _hot_path(path: HotPath | None) -> dict[str, object] | None:
    if path is None:
        return None
    calls = [fill(shapes.HotCall, call.frame, looks=call.looks) for call in path.calls]
    return fill(shapes.HotPath, path, calls=calls)


def _thread(thread: Thread, one: LiveProcess, body: dict[str, object]) -> dict[str, object]:
    task = one.task(thread.tid)
    return fill(
        shapes.LiveThread,
        does=waits_words(one, thread),
        state=None if task is None else task.state,
        wait_channel=None if task is None else task.wait_channel,
        system_call=None if task is None else task.call,
        kernel_stack=() if task is None else task.kernel_stack,
        **body,
    )
