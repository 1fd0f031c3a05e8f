"""What tasks were waiting for when they or the log ended, and who could have let them go on."""

from collections.abc import Iterable, Iterator, Mapping

from postmortem import thresholds
from postmortem.diagnose.names import clip
from postmortem.diagnose.strace.arguments import argument, flags, number
from postmortem.diagnose.strace.calls import who
from postmortem.diagnose.strace.waits import waits_for_child
from postmortem.facts.syscall_totals import ErrorCount
from postmortem.facts.syscalls import Awaited, Blocked, SystemCalls, Task
from postmortem.patterns import Pattern
from postmortem.records import record
from postmortem.text import counted, some

_SLEEP = Pattern(r"\{(?:tv_sec=)?(?P<seconds>\d{1,12}), (?:tv_nsec=)?(?P<rest>\d{1,9})\}")
_SLEEPS = frozenset({"nanosleep", "clock_nanosleep", "pause", "rt_sigsuspend", "restart_syscall"})
_YIELD = "sched_yield"
_MOST_CALLS = 4
_LEAST_LOOKS = 5


@record
class Waiting:
    """Tasks that wait for the same."""

    tasks: tuple[Task, ...]
    syscall: str
    line: int
    what: str
    seconds: float | None
    """Of the one that has waited longest; None if the log has no times."""
    asleep: bool
    """It sleeps by itself: nobody has to wake it."""
    ended: bool
    """A signal ended the wait: `seconds` is all of it. Else it went on behind the log's end."""

    @property
    def duration(self) -> str:
        """How long they waited, in words; empty if the log does not tell."""
        if self.seconds is None or (self.seconds < 0.05 and not self.ended):
            return ""
        return f"{'' if self.ended else '≥ '}{self.seconds:.1f} s"


def still_in_call(task: Task) -> bool:
    """Return whether a task waited when the log ended or a signal ended it."""
    end = task.ending
    return task.blocked is not None and (end is None or end.signal is not None)


def waiting(log: SystemCalls) -> tuple[Waiting, ...]:
    """Return who waited for what at the end; sleepers last, else the largest group first."""
    tasks = {task.pid: task for task in log.tasks}  # a pid that came back: the later one
    groups: dict[tuple[str, str], list[Task]] = {}
    for task in filter(still_in_call, log.tasks):
        blocked = task.blocked
        assert blocked is not None
        groups.setdefault((blocked.syscall, _what(task, blocked, tasks)), []).append(task)
    rows = [_waiting(log, name, what, members) for (name, what), members in groups.items()]
    return tuple(sorted(rows, key=lambda row: (row.asleep, -len(row.tasks), row.line)))


def wait_words(log: SystemCalls) -> str | None:
    """Return in a sentence who waited for what when the log ended; None if nobody did."""
    giving = next((words for task in log.tasks if (words := _giving_way(task))), None)
    stuck = [task for task in log.tasks if task.ending is None and task.blocked is not None]
    if not stuck or (giving and all(one.blocked.syscall == _YIELD for one in stuck if one.blocked)):
        return giving
    first = waiting(log)[0]
    task = first.tasks[0]
    mates = [t for t in log.tasks if t.process == task.process and t.ending is None]
    program = f" ({task.program[:60]})" if task.program else ""
    futexes = [t for t in mates if t.blocked is not None and t.blocked.syscall == "futex"]
    if len(mates) > 1 and len(futexes) == len(mates):
        return f"all {len(mates)} tasks of pid {task.process}{program} wait in futex"
    assert task.blocked is not None
    text = clip(task.blocked.text, 80)  # what it waits for, where nothing else is known
    cut = first.what == text and not text.endswith(")")
    what = "" if cut else f", for {clip(first.what, 140)}"
    words = f"{who(task.pid)}{program} is in {first.syscall}{what}"
    polled = _polled(log, task) if first.asleep else None
    if polled is not None:
        words = (
            f"{who(task.pid)}{program} asks for {polled.path} again and again "
            f"({polled.syscall} gave {polled.errno}, {polled.count:,} times)"
        )
    others = len(stuck) - 1
    return words + (f"; {counted(others, 'other task')} in calls too" if others else "")


def _giving_way(task: Task) -> str:
    """Return in a sentence that a task did hardly anything but give its processor away."""
    count = sum(one.calls for one in task.calls if one.name == _YIELD)
    others = sum(one.calls for one in task.calls) - count
    if task.ending is not None or count < thresholds.SNIPPET_CALLS:
        return ""
    if others * thresholds.SPIN_SHARE > count:
        return ""
    return (
        f"{who(task.pid)} gives its processor away again and again ({_YIELD}, {count:,} times): it "
        "waits so for a GPU, another thread or another rank"
    )


def _polled(log: SystemCalls, task: Task) -> ErrorCount | None:
    """Return what a task that sleeps between two looks has looked for in vain until the end."""
    last = task.last_failures[-1] if task.last_failures else None
    if last is None or last.path is None:
        return None
    same = (last.errno, last.syscall, last.path)
    rows = (row for row in log.errors if (row.errno, row.syscall, row.path) == same)
    row = next(rows, None)
    return row if row is not None and row.count >= _LEAST_LOOKS else None


def stop_words(log: SystemCalls) -> str | None:
    """Return in a sentence which process was stopped when the log ended, and by which signal."""
    task = next((t for t in log.tasks if t.stopped and t.ending is None), None)
    if task is None:
        return None
    program = f" ({task.program[:60]})" if task.program else ""
    terminal = task.stopped in ("SIGTTIN", "SIGTTOU")
    why = " (it used its terminal from the background)" if terminal else ""
    return f"{who(task.pid)}{program} is stopped by {task.stopped}{why}; SIGCONT lets it go on"


def interruption_words(task: Task) -> str | None:
    """Return which signal from elsewhere asked a process to end first, and out of which call."""
    if not task.interruptions:
        return None
    one = task.interruptions[0]
    sender = f"pid {one.sender_pid}" if one.sender_pid is not None else "the terminal or the kernel"
    words = f"{one.signal} from {sender} (line {one.line:,})"
    if one.syscall is None:
        return words
    words += f" interrupted its {one.syscall}"
    if one.target is not None:
        words += f" on {one.target}"
    return words + (f" after {one.seconds:.1f} s" if one.seconds >= 0.05 else "")


def futex_address(task: Task) -> str | None:
    """Return the address of the futex in which a task waits, with its process."""
    if task.blocked is None or task.blocked.syscall != "futex":
        return None
    address = argument(task.blocked, 0)
    return address if address.startswith("0x") else None


def _waiting(log: SystemCalls, name: str, what: str, members: list[Task]) -> Waiting:
    spans = [seconds for task in members if (seconds := waited(log, task)) is not None]
    lines = [task.blocked.line for task in members if task.blocked is not None]
    return Waiting(
        tuple(members),
        name,
        min(lines),
        what,
        max(spans) if spans else None,
        name in _SLEEPS,
        all(task.ending is not None for task in members),
    )


def waited(log: SystemCalls, task: Task) -> float | None:
    """Return for how many seconds a task had been in its last call."""
    if task.blocked is None:
        return None
    end = None if task.ending is None else task.ending.time
    return log.seconds_to_end(task.blocked.since, end)


def _what(task: Task, blocked: Blocked, tasks: Mapping[int, Task]) -> str:
    if blocked.syscall == "futex":
        return _futex(task, blocked, tasks)
    slept = _SLEEP.search(blocked.text) if blocked.syscall in _SLEEPS else None
    if slept is not None and "TIMER_ABSTIME" in flags(blocked, 1):
        return "a set time (TIMER_ABSTIME)"
    if slept is not None:
        return f"{int(slept['seconds']) + int(slept['rest']) / 1e9:g} s to pass"
    if waits_for_child(task):
        child = None if blocked.syscall == "waitid" else number(blocked, 0)
        return _children(task, -1 if child is None else child, tasks)
    words = [_end(task, one, tasks) for one in blocked.awaited]
    words = [word for word in words if word]
    if words:
        return "; ".join(words)
    if blocked.target is not None:
        return blocked.target.words
    return clip(blocked.text, 80)


def _futex(task: Task, blocked: Blocked, tasks: Mapping[int, Task]) -> str:
    address = futex_address(task)
    if address is None:
        return "a futex"
    words = f"futex {address}"
    use = blocked.futex
    if use is None:
        return f"{words}, which nobody in the log has woken"
    said = []
    if use.woken_by is not None:
        said.append(f"last woken by {use.woken_by} (line {use.woken_line:,})")
    if use.passed_by is not None and use.passed_line > use.woken_line:
        holder = tasks.get(use.passed_by)
        doing = "" if holder is None or holder.blocked is None else _doing(holder)
        said.append(f"last let in: {use.passed_by} (line {use.passed_line:,}), may hold it{doing}")
    return f"{words}, {', '.join(said)}" if said else words


def _children(task: Task, pid: int, tasks: Mapping[int, Task]) -> str:
    if pid > 0:
        child = tasks.get(pid)
        return f"child {pid}" + ("" if child is None else _named(child) + _doing(child))
    mine = [
        other
        for other in tasks.values()
        if other.ppid == task.process and other.thread_of is None and other.ending is None
    ]
    if not mine:
        return "any child"
    shown = [f"{child.pid}{_named(child)}{_doing(child)}" for child in mine[:3]]
    return f"any child: {some(shown, 3)}" + (f" of {len(mine)}" if len(mine) > 3 else "")


def _end(task: Task, one: Awaited, tasks: Mapping[int, Task]) -> str:
    target = one.target
    words = target.words
    if target.kind == "unknown" and target.path is None:
        words = f"descriptor {one.fd}"
    elif target.kind in ("pipe", "socket") or not target.path:
        words = f"{words} (descriptor {one.fd})"
    if not one.other_end_known:
        return words
    if not one.holder_count:
        return f"{words}, whose other end nobody in the log has open"
    own = [holder for holder in one.holders if holder.pid == task.process]
    others = [holder for holder in one.holders if holder.pid != task.process]
    said = []
    for holder in others[:3]:
        who = tasks.get(holder.pid)
        said.append(
            f"{holder.pid}{_named(who) if who else ''} (descriptor {holder.fd})"
            f"{_doing(who) if who else ''}"
        )
    if own:
        said.append(f"it has the other end open itself (descriptor {own[0].fd})")
    more = one.holder_count - len(others[:3]) - len(own)
    if more > 0:
        said.append(f"{more} more")
    return f"{words}, other end: {'; '.join(said)}"


def _named(task: Task) -> str:
    return f" {task.program[:40]}" if task.program else ""


def _doing(task: Task) -> str:
    """Return what another task was doing meanwhile."""
    if task.ending is not None:
        return ", which has ended"
    if task.blocked is not None:
        return f", which is in {task.blocked.syscall}"
    return ", which was running"


def time_by_call(tasks: Iterable[Task]) -> Iterator[tuple[Task, str, float]]:
    """Yield tasks with what they spent their time in, those with the most first."""
    rows = []
    for task in tasks:
        seconds = sum(call.seconds for call in task.calls)
        if seconds >= 0.001:
            rows.append((seconds, task))
    for seconds, task in sorted(rows, key=lambda row: -row[0]):
        parts = [
            f"{call.name} {call.seconds:.3f} s ({counted(call.calls, 'call')})"
            for call in task.calls[:_MOST_CALLS]
            if call.seconds >= 0.01 * seconds
        ]
        yield task, ", ".join(parts), seconds
