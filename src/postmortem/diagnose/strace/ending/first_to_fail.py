"""One process ended badly before the others did.

What it means
    Several processes of the log ended badly. One of them was the first; those that started it,
    and those that worked with it, mostly end because it did: a launcher passes its status on
    and ends the others.
How to be sure
    The log's lines are in the order of time (of several logs: by their stamps). Look at what
    the first one did last: --find pid=PID with the errors that it got.
What to do
    Look at the first one; the others only follow.
"""

from collections.abc import Sequence

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Finding, Findings, Subject, rule
from postmortem.diagnose.strace.calls import ANSWERING, who
from postmortem.diagnose.strace.signals import CRASHES, cite_end, ended
from postmortem.diagnose.strace.stderr_errors import last_stderr_line
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Ending, Task
from postmortem.text import shell_word

_ASKING = frozenset({"SIGINT", "SIGTERM", "SIGQUIT"})


@rule("https://pytorch.org/docs/stable/elastic/errors.html")
def first_to_fail(logs: Logs) -> Findings:
    bad = [(t, end) for t, end in ended(logs) if _badly(end) and not _forgiven(logs, t)]
    in_files = len({ending.file for _, ending in bad}) > 1  # of -ff: only stamps order them
    if (
        len(bad) < 2
        or _is_one_process(bad)
        or (in_files and any(ending.time is None for _, ending in bad))
    ):
        return
    bad.sort(key=lambda row: (row[1].time or 0.0, 0) if in_files else (0.0, row[1].line))
    task, ending = bad[0]
    if ending.code is None or any(one.signal in _ASKING for one in task.interruptions):
        return  # a signal, or asked by one: that is what tells
    others = len(bad) - 1
    said = last_stderr_line(task)
    yield Finding(
        title=(
            f"{who(task.pid)} was the first of {len(bad)} processes to fail: "
            f"exit code {ending.code}"
            f"{f' ({said})' if said else ''}"
        ),
        cause=f"{clip(task.program or f'{who(task.pid)}', 80)} exited with {ending.code} at line "
        f"{ending.line:,}; {'the other one' if others == 1 else f'the {others} others'} ended "
        f"badly after it{f'; it said: {clip(said, 80)}' if said else ''}",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            f"what it said: postmortem strace LOG --find 'syscall=write fd=2 pid={task.pid}' -v",
            f"grep -n '^{task.pid} ' {shell_word(ending.file.rpartition('/')[2])} | tail -50",
        ),
        evidence=tuple(cite_end(*one) for one in bad[:4]),
        about=Subject(pid=task.pid or None, signal=ending.signal),
    )


def _is_one_process(bad: Sequence[tuple[Task, Ending]]) -> bool:
    """Return whether tasks of which nothing tells who made them are threads that exit at once."""
    lines = sorted(ending.line for _, ending in bad)
    nameless = all(task.ppid is None and task.argv is None for task, _ in bad)
    alike = len({(ending.file, ending.code) for _, ending in bad}) == 1
    return nameless and alike and lines[-1] - lines[0] < 2 * len(bad)


def _forgiven(logs: Logs, task: Task) -> bool:
    """Return whether its parent exited with 0 after it, went on, or had only asked it something."""
    parent = logs.task(task.ppid) if task.ppid else None
    if parent is None and not task.last_words:
        first = logs.logs[0].tasks[0].ending  # whose child it is, where forks are not in the log
        return first is not None and first.signal == "SIGKILL" and first.sender_pid is None
    if parent is None or parent.ending is None or task.ending is None:
        return False
    if parent.ending.code == 0:
        return True
    if parent.ending.signal == "SIGKILL" and not task.last_words:
        return parent.ending.sender_pid is None  # it had gone on, and nobody in the log meant it
    went_on = (
        parent.ending.line - task.ending.line > thresholds.CHILD_FAILED_LINES
    )  # set -e ends a shell at once
    name = (task.argv or ("",))[0].rpartition("/")[2]
    return went_on and name in ANSWERING and not task.last_words


def _badly(ending: Ending) -> bool:
    if ending.signal is not None:
        return ending.signal in CRASHES or ending.sender_pid is not None
    return ending.code != 0
