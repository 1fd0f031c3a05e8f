"""What a log of system calls says first."""

from collections.abc import Sequence

from postmortem.diagnose.names import clip
from postmortem.diagnose.strace.calls import who
from postmortem.diagnose.strace.ending.killed_by_process import GivenUp
from postmortem.diagnose.strace.recording_limits import RECORD
from postmortem.diagnose.strace.signals import had_enough
from postmortem.diagnose.strace.stderr_errors import last_stderr_line, spoken_failure
from postmortem.facts.syscall_logs import FROM_OUTSIDE
from postmortem.facts.syscalls import Ending, SystemCalls, Task
from postmortem.present.headline.grammar import hedged
from postmortem.present.strace.view import Found, StraceView
from postmortem.present.strace.waits import interruption_words, stop_words, wait_words
from postmortem.report.model import Diagnosis, Role, Subject
from postmortem.text import counted, some

_WRITES = frozenset(
    {"write", "pwrite64", "writev", "pwritev", "sendfile", "copy_file_range", "mmap"}
)


def ended_badly(log: SystemCalls) -> Task | None:
    """The task whose end tells most: the first killed by a signal, else the first if it failed.

    Who ended what it had started, and then ended well itself, meant it; and so did who ended by a
    signal of its own that asks to end, where that was well with who had started it.
    """
    was_given_up = GivenUp(log.tasks)
    well = {task.pid for task in log.tasks if task.ending is not None and task.ending.code == 0}
    killed = [
        (task, task.ending)
        for task in log.tasks
        if task.thread_of is None and task.ending is not None and task.ending.signal is not None
        if not was_given_up(task) and not had_enough(task, log.tasks)
        if task.ppid not in well or not _was_meant(task, task.ending)
    ]
    if killed:
        in_order = len({end.file for _, end in killed}) == 1  # lines of -ff have no common order
        return min(killed, key=lambda row: row[1].line)[0] if in_order else killed[0][0]
    first = log.tasks[0] if log.tasks else None
    if first is not None and first.ending is not None and first.ending.code not in (0, None):
        return first
    return None


def _was_meant(task: Task, end: Ending) -> bool:
    asked_itself = end.sender_pid == task.pid and end.signal in FROM_OUTSIDE
    return asked_itself or end.sender_pid == task.ppid


def headline(view: StraceView, diagnoses: Sequence[Diagnosis]) -> str:
    """Return what was asked, answered, or why the recorded processes ended."""
    if not view.summary:
        return "; ".join(_answer(found, view.logs) for found in view.finds)
    said = _said_first(diagnoses)
    parts = [said] if said else []
    about = diagnoses[0].about if said else None
    follows = bool(diagnoses) and diagnoses[0].role is Role.CASCADE
    task: Task | None = None
    for log in view.logs:
        task = ended_badly(log)
        if task is not None:
            end = task.ending
            killed = Subject(pid=task.pid or None, signal=end.signal if end is not None else None)
            if said is not None and killed.signal is not None and about == killed:
                parts = [_with_program(said, task) + _stuck_with(task, log)]
            else:
                parts.append(_ended(task) + _stuck_with(task, log))
            break
    parts += _last_line(task) if (follows or not said) and task is not None else []
    if follows and task is not None and task.ending is not None and task.ending.code:
        parts = [*parts[1:], *parts[:1]]  # a consequence is not the cause
    parts += _worth_a_look(view, task) if not said else []
    stops = [words for log in view.logs if (words := stop_words(log)) is not None]
    parts += [f"the log ends while {stops[0]}"] if stops else []
    if not stops and (not parts or not said):
        waits = [words for log in view.logs if (words := wait_words(log)) is not None]
        parts += [f"the log ends while {waits[0]}"] if waits else []
    if not parts:
        asked = ((task, interruption_words(task)) for log in view.logs for task in log.tasks)
        parts += [f"{who(task.pid)} had not ended after {words}" for task, words in asked if words][
            :1
        ]
    if parts:
        return "; ".join(parts)
    return _calm(tuple(task for log in view.logs for task in log.tasks))


def _calm(tasks: Sequence[Task]) -> str:
    """Return how processes ended of which none failed, with an error that one of them named."""
    if not tasks or any(task.ending is None and task.recorded for task in tasks):
        return "no failure that matters; some processes had not ended when the log did"
    ends = [task.ending for task in tasks if task.thread_of is None and task.ending is not None]
    bad = [end for end in ends if end.code or end.signal]
    if bad:
        failed = counted(len(bad), "child", "children")
        how = "ended by a signal or" if any(end.signal for end in bad) else "exited"
        return f"no failure that matters: {failed} {how} with an error, and the parent with 0"
    unseen = sum(1 for task in tasks if task.ending is None)
    if unseen:
        others = counted(unseen, "child is", "children are")
        return f"no failure that matters: every process in the log ended well; {others} not in it"
    named = next((t for t in tasks if spoken_failure(t) is not None), None)
    line = last_stderr_line(named) if named is not None else None
    if named is not None and line is not None:
        said = clip(line, 80)
        return f"every process exited with 0, but {who(named.pid)} named an error: {said}"
    return "no failure that matters: every process ended well"


def _worth_a_look(view: StraceView, task: Task | None) -> list[str]:
    """Failures that no rule explains: they may be how the program asks, or why it stopped."""
    parts = []
    for name, folders in view.missing_libraries[:1]:
        more = len(view.missing_libraries) - 1
        others = f" (and {counted(more, 'other')})" if more else ""
        where = counted(len(folders), "folder")
        parts.append(f"the library {name}{others} was never found, in {where}")
    real = [group for group in view.failed if group.real]
    writing = _half_written(view)
    if not real and not parts and writing:
        parts.append(f"no write is in the log (-e trace=); it had open for writing: {writing}")
    open_end = any(one.ending is None and one.recorded for log in view.logs for one in log.tasks)
    if not real and not parts and view.last_failures and (task is not None or open_end):
        failure = view.last_failures[0][1][0]
        on = f" on {failure.path}" if failure.path else ""
        ended = view.last_failures[0][0]
        owner = "it" if task is not None and task.pid == ended.pid else who(ended.pid)
        parts.append(
            f"the last call of {owner} that failed: {failure.syscall}, {failure.errno}{on}"
        )
    if real:
        count = len(real[0].matches)
        times = "" if count == 1 else f", {count:,} times"
        rest = "" if len(real) == 1 else f"; {counted(len(real) - 1, 'other target')} failed too"
        parts.append(f"{real[0].errno} on {real[0].target.words}{times}{rest}")
    return parts


def _half_written(view: StraceView) -> str | None:
    """What a process that failed had open for writing, where the log has no writes."""
    names = {call.name for log in view.logs for call in log.calls}
    if names & _WRITES:
        return None
    tasks = (task for log in view.logs for task in log.tasks)
    writing = next((t.open_for_writing for t in tasks if t.open_for_writing), ())
    files = [path for path in writing if not path.startswith(("/dev/", "/proc/"))]
    return some(files, 2) if files else None


def _last_line(task: Task) -> list[str]:
    """What a process said last, where nothing else tells why it ended."""
    line = last_stderr_line(task)
    return [] if line is None else [f"it said: {clip(line, 80)}"]


def _stuck_with(task: Task, log: SystemCalls) -> str:
    """Say so when a signal ended a process whose tasks all waited in futex."""
    if task.ending is None or task.ending.signal is None:
        return ""
    threads = [t for t in log.tasks if t.thread_of == task.pid]
    mates = [task, *(t for t in threads if t.ending is not None and t.ending.signal is not None)]
    if len(mates) < 2 or any(t.blocked is None or t.blocked.syscall != "futex" for t in mates):
        return ""
    return f"; all {len(mates)} of its tasks were waiting in futex"


def _ended(task: Task) -> str:
    end = task.ending
    assert end is not None
    program = f" ({task.program[:60]})" if task.program else ""
    asked = interruption_words(task)
    before = "" if asked is None else f", after {asked}"
    if end.signal is None:
        return f"{who(task.pid)}{program} exited with {end.code}{before}"
    if before and end.sender_pid == task.pid:
        return f"{who(task.pid)}{program} died of {end.signal}{before}"
    sender = ""
    if end.sender_pid is not None:
        sender = " from itself" if end.sender_pid == task.pid else f" from pid {end.sender_pid}"
    blocked = f" while in {task.blocked.syscall}" if task.blocked is not None else ""
    return f"{who(task.pid)}{program} was killed by {end.signal}{sender}{blocked}"


def _with_program(said: str, task: Task) -> str:
    """Return what is said of a process with the program that it ran."""
    name = who(task.pid)
    return said.replace(name, f"{name} ({task.program[:60]})", 1) if task.program else said


def _answer(found: Found, logs: tuple[SystemCalls, ...]) -> str:
    real = [group for group in found.groups if group.real]
    if not found.matches:
        return f"{found.query}: {_nothing(logs)}"
    if not real:
        count = counted(len(found.matches), "failure")
        return f"{found.query}: {count}, all injected by strace itself: not real"
    matches = [match for group in real for match in group.matches]
    names = list(dict.fromkeys(match.syscall for match in matches))
    said = "failed " if all(match.errno is not None for match in matches) else ""
    noun = "call" if any(name.islower() for name in names) else "signal"
    words = f"{said}{'/'.join(names[:3])}{'' if len(names) <= 3 else ' …'}"
    calls = counted(len(matches), f"{words} {noun}")
    paths = list(
        dict.fromkeys(
            group.target.words
            for group in real
            if group.first.fd is not None or group.target.path is not None
        )
    )
    longest = max((match.seconds or 0.0 for match in matches), default=0.0)
    if found.slow:
        calls += f", the longest {longest:.3f} s"
    if not paths:
        return f"{found.query}: {calls}"
    if len(paths) == 1:
        return f"{found.query}: {calls}, one target: {paths[0]}"
    return f"{found.query}: {calls}, {len(paths)} targets: {paths[0]} first"


def _nothing(logs: tuple[SystemCalls, ...]) -> str:
    if any(log.recording.io_uring for log in logs):
        files = [path for log in logs for path in log.recording.open_for_writing]
        writing = f"; open for writing there: {', '.join(files[:3])}" if files else ""
        return f"not in the log, but io_uring was used, whose failures strace cannot see{writing}"
    return f"not in the log; if you expected it, record every process and call: {RECORD}"


def _said_first(diagnoses: Sequence[Diagnosis]) -> str | None:
    """Return the best diagnosis in words, hedged as it must be; nothing if all are in passing."""
    best = diagnoses[0] if diagnoses else None
    if best is None or best.role is Role.CONTEXT:
        return None
    if best.role is Role.CONTRIBUTING:
        if best.id == "known_last_words":  # only of processes that failed
            return best.title
        return f"no process failed because of it, but: {best.title}"
    survived = " (the process went on and exited with 0)" if best.survived else ""
    return hedged(diagnoses, after=survived)
