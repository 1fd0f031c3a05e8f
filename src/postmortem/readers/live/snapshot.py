"""What was read of live processes, as facts: stacks, calls, open files, and what went wrong."""

import errno
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Literal

from postmortem.errors import DebuggerError, EvidenceError
from postmortem.facts.core import CoreFacts
from postmortem.facts.live import Descriptor, LiveProcess, Reading, SystemCall, Task
from postmortem.facts.source import Problem
from postmortem.facts.threads import Thread, Threads
from postmortem.readers.core import facts_of
from postmortem.readers.launcher import Placement, find_placement
from postmortem.readers.live.calls import SLEEPS, explained, sqlite_words
from postmortem.readers.live.descriptors import OtherEnds, read_connections, read_descriptors
from postmortem.readers.live.job_processes import Member
from postmortem.readers.live.native import NativeLive, read_native
from postmortem.readers.live.status import read_environment, read_status, text_or_none, user_name
from postmortem.readers.live.tasks import read_tasks
from postmortem.readers.native_core import NativeAnswer
from postmortem.readers.python_frames import with_python
from postmortem.records import record, replace

Engine = Literal["auto", "native", "py-spy", "gdb", "proc"]

_INNERMOST = 12
"""Frames in which a library shows what it sleeps for."""
_PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"


@record
class ReadOptions:
    """How processes may be read."""

    engine: Engine = "auto"
    stop: bool = True
    deadline_seconds: float = 20.0
    signal: int | None = None
    gdb: str | None = None


def read_members(
    members: Mapping[int, Member], options: ReadOptions, problems: list[Problem]
) -> dict[int, LiveProcess]:
    """Return what is read of processes, by pid; those that ended meanwhile are left out."""
    native: Mapping[int, NativeLive] = {}
    # First what shows nothing of us: a stop ends some waits, which then begin anew.
    tasks = {pid: read_tasks(pid) for pid in members}
    if options.engine in ("auto", "native"):
        wanted = [pid for pid in members if tasks[pid]]
        native = read_native(wanted, stop=options.stop, deadline_seconds=options.deadline_seconds)
    found: dict[int, LiveProcess] = {}
    for pid, member in members.items():
        one = _Snapshot(pid, member, options, tasks[pid], problems)
        process = one.read(native.get(pid))
        if process is not None:
            found[pid] = process
    return found


class _Snapshot:
    """One process on its way from what was read to a fact."""

    def __init__(
        self,
        pid: int,
        member: Member,
        options: ReadOptions,
        tasks: tuple[Task, ...],
        problems: list[Problem],
    ) -> None:
        self._pid = pid
        self._member = member
        self._options = options
        self._tasks = tasks
        self._problems = problems
        self._where = f"pid {pid}"

    def read(self, native: NativeLive | None) -> LiveProcess | None:
        status = read_status(self._pid)
        if status is None or status.state in ("Z", "X") or not self._tasks:
            self._problems.append(Problem(self._where, "ended while it was read"))
            return None
        env = read_environment(self._pid)
        process = LiveProcess(
            pid=self._pid,
            ppid=status.ppid,
            state=status.state,
            user=user_name(status.uid),
            argv=status.argv or (f"[{status.command}]",),
            label=self._where,
            reading=Reading("none", "no stacks"),
            threads=Threads(self._without_stacks(), self._pid),
            tasks=self._tasks,
            env=tuple((env or {}).items()),
            hostname=socket.gethostname(),
            tracer=status.tracer or None,
            started=status.started,
            executable=_link(f"/proc/{self._pid}/exe"),
        )
        if native is not None and native.core is not None:
            process = self._of_native(process, native)
        else:
            process = self._of_others(process, native)
        of = self._member.child_of_rank
        if of is not None:
            return replace(process, label=f"child pid {self._pid} of rank {of}")
        place = self._member.place
        if place.rank is None:
            place = find_placement(dict(process.env))
        return self._placed(process, place)

    def _placed(self, process: LiveProcess, place: Placement) -> LiveProcess:
        return replace(
            process,
            rank=place.rank,
            local_rank=place.local_rank,
            world_size=place.world_size,
            launcher=place.launcher,
            label=f"rank {place.rank}" if place.rank is not None else self._where,
        )

    def _without_stacks(self) -> tuple[Thread, ...]:
        return tuple(
            Thread(tid=task.tid, name=task.name, stopped="its stack was not read")
            for task in self._tasks
        )

    def _of_native(self, process: LiveProcess, native: NativeLive) -> LiveProcess:
        assert native.core is not None
        assert native.live is not None
        live = native.live
        facts = facts_of(NativeAnswer(self._where, native.core))
        threads = self._threads(facts, live["tids"])
        self._tell(live["refused"], live["stopped"], process)
        stood = f"stopped for {live['stopped_seconds'] * 1000:.0f} ms"
        words = f"own reader, {stood if live['stopped'] else 'read as it ran'}"
        return replace(
            process,
            threads=threads,
            env=facts.process.env or process.env,
            python_version=facts.process.python_version,
            executable=facts.process.executable or process.executable,
            reading=Reading("native", words, live["stopped_seconds"]),
        )

    def _threads(self, facts: CoreFacts, tids: Mapping[int, int]) -> Threads:
        """Return the threads with their Python frames, names, and the ids that we know."""
        names = {task.tid: task.name for task in self._tasks}
        items = []
        for thread in facts.threads:
            stack = facts.python_stacks.get(thread.tid)
            if stack is not None:
                thread, _ = with_python(thread, stack)
            tid = tids.get(thread.tid, thread.tid)
            wait = thread.waits_for
            if wait is not None and wait.holder is not None:
                wait = replace(wait, holder=tids.get(wait.holder, wait.holder))
            items.append(
                replace(
                    thread,
                    tid=tid,
                    name=names.get(tid, thread.name),
                    waits_for=wait,
                    registers=None,
                )
            )
        self._problems += [
            replace(one, where=f"{self._where}: {one.where}")
            for one in facts.problems
            if "command line" not in one.where
        ]

        def ours(tid: int | None) -> int | None:
            return None if tid is None else tids.get(tid, tid)

        return replace(
            facts.threads,
            items=tuple(items),
            main_tid=self._pid,
            async_tasks=tuple(replace(t, tid=ours(t.tid)) for t in facts.threads.async_tasks),
            greenlets=tuple(replace(g, tid=ours(g.tid)) for g in facts.threads.greenlets),
            idle_loops=frozenset(tids.get(tid, tid) for tid in facts.threads.idle_loops),
        )

    def _tell(self, refused: int, stopped: bool, process: LiveProcess) -> None:
        """Note what kept the process from standing still while it was read."""
        if stopped or not self._options.stop:
            return
        remedy: str | None = None
        stuck = [task for task in self._tasks if task.state == "D"]
        if process.tracer is not None:
            name = (text_or_none(f"/proc/{process.tracer}/comm") or "").strip()
            what = f"is traced by pid {process.tracer} ({name}), so it was read as it ran"
            remedy = f"end that tracer for exact stacks: kill {process.tracer}"
        elif refused:
            what = f"could not be stopped ({os.strerror(refused)}), so it was read as it ran"
            remedy = _permission(process, refused)
        elif stuck:
            words = "; ".join(f"thread {task.tid} in {task.wait_channel}" for task in stuck[:4])
            what = f"threads that cannot be interrupted were read as they are: {words}"
            remedy = "as root, /proc/PID/stack names the file system or driver that they wait for"
        else:
            what = "not all of its threads came to a stop; those were read as they are"
        self._problems.append(Problem(self._where, what, remedy))

    def _of_others(self, process: LiveProcess, native: NativeLive | None) -> LiveProcess:
        """Read it by other tools, as far as there are any that may and can."""
        if native is not None and native.error is not None:
            what, remedy = _native_failure(native.error, process)
            self._problems.append(Problem(self._where, what, remedy))
        for way in self._others(native):
            try:
                found = way(process)
            except (EvidenceError, DebuggerError) as error:
                where = error.where if isinstance(error, EvidenceError) else "gdb"
                place = self._where if where == self._where else f"{self._where}: {where}"
                self._problems.append(Problem(place, error.what, error.hint))
                continue
            if found is not None:
                return found
        return process

    def _others(
        self, native: NativeLive | None
    ) -> list[Callable[[LiveProcess], LiveProcess | None]]:
        engine = self._options.engine
        ways: list[Callable[[LiveProcess], LiveProcess | None]] = []
        # What hung us (a dead file server) would hang them, with the process stopped.
        may = native is None or not native.timed_out
        if engine == "py-spy" or (engine == "auto" and may):
            ways.append(self._by_pyspy)
        if engine == "gdb" or (engine == "auto" and may):
            ways.append(self._by_gdb)
        if self._options.signal is not None and engine != "proc":
            ways.append(self._by_signal)
        return ways

    def _by_pyspy(self, process: LiveProcess) -> LiveProcess:
        from postmortem.readers.live.other_tools import by_pyspy

        dump = by_pyspy(self._pid, deadline_seconds=self._options.deadline_seconds)
        return replace(
            process,
            threads=self._merged(dump.threads),
            reading=Reading("py-spy", "py-spy: Python stacks alone"),
        )

    def _by_gdb(self, process: LiveProcess) -> LiveProcess:
        from postmortem.readers.gdb.find import find_gdb
        from postmortem.readers.live.other_tools import by_gdb

        gdb = find_gdb(self._options.gdb)
        seconds = self._options.deadline_seconds
        threads = by_gdb(self._pid, gdb, deadline_seconds=seconds)
        return replace(
            process,
            threads=self._merged(threads),
            reading=Reading("gdb", f"{gdb.version_text}: native stacks alone"),
        )

    def _by_signal(self, process: LiveProcess) -> LiveProcess:
        from postmortem.readers.live.other_tools import by_signal

        number = self._options.signal
        assert number is not None
        dump = by_signal(self._pid, number)
        # It knows threads by pthread_self(); the main thread is the one that the kernel knows.
        threads = tuple(
            replace(thread, tid=self._pid) if i == dump.main else thread
            for i, thread in enumerate(dump.threads)
        )
        name = signal.Signals(number).name
        words = f"faulthandler, by {name}: Python stacks alone"
        return replace(
            process, threads=Threads(threads, self._pid), reading=Reading("faulthandler", words)
        )

    def _merged(self, threads: tuple[Thread, ...]) -> Threads:
        """Return the threads of a tool, with those that only the kernel knows behind them."""
        names = {task.tid: task.name for task in self._tasks}
        items = [replace(one, name=one.name or names.get(one.tid)) for one in threads]
        seen = {one.tid for one in items}
        items += [one for one in self._without_stacks() if one.tid not in seen]
        return Threads(tuple(items), self._pid)


def with_calls(
    processes: dict[int, LiveProcess], problems: list[Problem]
) -> dict[int, LiveProcess]:
    """Return the processes with their open files, and what their system calls wait for."""
    labels = {pid: _name(one) for pid, one in processes.items()}
    ends = OtherEnds(labels)
    return {pid: _with_calls(one, ends, labels, problems) for pid, one in processes.items()}


def _with_calls(
    process: LiveProcess, ends: OtherEnds, labels: Mapping[int, str], problems: list[Problem]
) -> LiveProcess:
    pid = process.pid
    known = read_connections(pid)
    try:
        rows = {one.fd: one for one in read_descriptors(pid, known)}
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            what = "its open files may not be looked at"
            problems.append(Problem(f"pid {pid}", what, _permission(process, errno.EPERM)))
        rows = {}

    def named(other: int) -> str:
        name = (text_or_none(f"/proc/{other}/comm") or "").strip()
        return labels.get(other) or (f"pid {other} ({name})" if name else f"pid {other}")

    def describe(one: Descriptor) -> str:
        told = replace(one, other_end=ends.of(pid, one, known), peers=ends.peers(one, known))
        rows[one.fd] = told
        return told.words

    tasks = []
    calls: dict[SystemCall, SystemCall] = {}
    in_sqlite = {
        one.tid
        for one in process.threads
        if any("sqlite" in (frame.module or "") for frame in one.frames[:_INNERMOST])
    }
    for task in process.tasks:
        call = task.call
        if call is not None:
            if call not in calls:
                calls[call] = explained(call, pid, rows, named, describe)
            task = replace(task, call=calls[call])
            if task.tid in in_sqlite and call.name in SLEEPS:
                task = replace(task, call=replace(call, words=sqlite_words(pid, rows, named)))
        tasks.append(task)
    return replace(process, tasks=tuple(tasks), descriptors=tuple(rows.values()))


def _name(one: LiveProcess) -> str:
    if one.rank is not None and one.works_for is None:
        return one.label
    return f"pid {one.pid} ({one.role or (one.argv[0].rpartition('/')[2] if one.argv else '?')})"


def _native_failure(error: str, process: LiveProcess) -> tuple[str, str | None]:
    denied = any(word in error for word in ("Permission denied", "not permitted"))
    if denied:
        return f"may not be read: {_whose(process)}", _permission(process, errno.EPERM)
    if "gave no answer" in error:
        remedy = (
            "is a file system of its libraries gone (df hangs)? it was not left stopped; "
            "a second try may do: --deadline 120"
        )
        return f"reading it {error}", remedy
    return error, None


def _whose(process: LiveProcess) -> str:
    if os.geteuid() != 0 and process.user != user_name(os.geteuid()):
        return f"it belongs to {process.user}"
    scope = (text_or_none(_PTRACE_SCOPE) or "").strip()
    if scope not in ("", "0"):
        return f"kernel.yama.ptrace_scope is {scope}"
    return "the kernel does not allow ptrace(2) on it"


def _permission(process: LiveProcess, error: int) -> str | None:
    if error not in (errno.EPERM, errno.EACCES):
        return None
    if os.geteuid() != 0 and process.user != user_name(os.geteuid()):
        return f"run it as that user or as root: sudo postmortem hang {process.pid}"
    scope = (text_or_none(_PTRACE_SCOPE) or "").strip()
    if scope in ("1", "2") and os.geteuid() != 0:
        return "sudo sysctl -w kernel.yama.ptrace_scope=0, or run it as root"
    if scope == "3":
        return "ptrace is off until the next boot: kernel.yama.ptrace_scope=3"
    return "in a container: docker run --cap-add=SYS_PTRACE (Kubernetes: capabilities.add), or ask \
from the host"


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115
    except OSError:
        return None
