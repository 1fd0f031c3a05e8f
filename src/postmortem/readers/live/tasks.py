"""Threads as the kernel sees them: state, wait channel, and the system call that each is in."""

import os
import platform

from postmortem.facts.live import SystemCall, Task
from postmortem.knowledge.syscalls import system_call
from postmortem.readers.live.status import cpu_seconds, stat_fields, text_or_none

_MOST_TASKS = 8192


def read_tasks(pid: int) -> tuple[Task, ...]:
    """Return the threads of a process, its leader first; empty: it is gone."""
    try:
        names = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return ()
    tids = sorted(int(name) for name in names if name.isdecimal())[:_MOST_TASKS]
    tids.sort(key=lambda tid: tid != pid)
    found = (_task(f"/proc/{pid}/task/{tid}", tid) for tid in tids)
    return tuple(task for task in found if task is not None)


def _task(folder: str, tid: int) -> Task | None:
    fields = stat_fields(f"{folder}/stat")
    if fields is None:
        return None
    channel = (text_or_none(f"{folder}/wchan") or "").strip()
    return Task(
        tid=tid,
        name=(text_or_none(f"{folder}/comm") or "").rstrip("\n"),
        state=fields[0],
        wait_channel=channel if channel not in ("", "0") else None,
        call=_call(text_or_none(f"{folder}/syscall") or ""),
        kernel_stack=_kernel_stack(text_or_none(f"{folder}/stack") or ""),
        cpu_seconds=cpu_seconds(fields),
    )


def activity(pid: int) -> tuple[float, int] | None:
    """Return what a process's first thread has done until now: seconds of processor, switches."""
    folder = f"/proc/{pid}/task/{pid}"
    fields = stat_fields(f"{folder}/stat")
    text = text_or_none(f"{folder}/status")
    if fields is None or text is None:
        return None
    lines = (line.partition(":") for line in text.splitlines())
    switches = sum(int(value) for key, _, value in lines if key.endswith("ctxt_switches"))
    return cpu_seconds(fields), switches


def _call(text: str) -> SystemCall | None:
    """Read ``"7 0x7ffd… 0x1 …"``: number, six arguments, stack pointer, program counter."""
    words = text.split()
    if len(words) < 9 or not words[0].isdecimal():
        return None
    try:
        arguments = tuple(int(word, 16) for word in words[1:7])
    except ValueError:
        return None
    name = system_call(int(words[0]), platform.machine()) or f"system call {words[0]}"
    return SystemCall(name, arguments, f"waits in {name}")


def _kernel_stack(text: str) -> tuple[str, ...]:
    """Read ``"[<0>] pipe_read+0x2f1/0x3d0"`` of each line."""
    calls = (line.rpartition("] ")[2].partition("+")[0].strip() for line in text.splitlines())
    return tuple(call for call in calls if call)[:32]
