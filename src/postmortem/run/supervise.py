"""Runs a command in our place, and watches all that it starts until it ends.

The command has our descriptors, process group and terminal themselves: nothing of what it reads or
writes passes through here. Signals that are meant for it are passed on, its stops are ours.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from postmortem.records import record
from postmortem.run.family import Family, Member, box_of, drop_box
from postmortem.run.scratch import Scratch
from postmortem.run.sentinel import PASSED_ON, Sentinel
from postmortem.run.start import start

_GROUP_SECONDS = 0.05
"""Within what time the sentinel gets a signal that we got with all of our process group."""
_PRELOAD_SECONDS = 0.5
_MOST_SHOTS = 6
_SHOT_GAP_SECONDS = 5.0
_KILL_SECONDS = 10.0
"""How long a command that ran out of time has after SIGTERM."""
_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_FATAL = frozenset(
    (
        signal.SIGSEGV,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGKILL,
        signal.SIGSYS,
        signal.SIGTRAP,
    )
)
CRASH_LEAD_SECONDS = 1.0
"""Within what time an exception may be heard of before the crash that it came of."""
_CREDENTIALS = struct.Struct("3i")


@record
class Event:
    """Something that happened to a process, in the order in which it was heard."""

    time: float
    kind: str
    """``"raised"``, ``"ended"``, ``"signal"`` (sent to the command), ``"timeout"``."""
    pid: int
    what: str
    file: str | None = None
    """Of a raise, what it wrote."""


@record
class Outcome:
    """How a command ended."""

    pid: int
    status: int
    """What `run` exits with: the command's own, 128 + N where signal N ended it."""
    signal: int | None
    began: float
    ended: float
    members: tuple[Member, ...]
    events: tuple[Event, ...]
    shots: tuple[Path, ...]
    stopped_by: int | None = None
    """A signal from outside that was passed on, or came to all of the group."""
    timed_out: bool = False
    core_limit: int = -1
    """What it ran with; 0: no cores, -1: unlimited."""
    raised_core_limit: bool = False
    """Without us it would have left no core."""

    @property
    def failed(self) -> bool:
        """Whether there is something to explain: not what the user has ended by Ctrl-C."""
        return self.status != 0 and self.stopped_by != signal.SIGINT


class Supervisor:
    """One run of a command."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        scratch: Scratch | None,
        *,
        timeout: float | None = None,
        cgroup: str | None = None,
        keep_files: bool = False,
        limits: Mapping[int, tuple[int, int]] | None = None,
        helpers: frozenset[int] = frozenset(),
        started: Callable[[int], None] | None = None,
    ) -> None:
        """Prepare it; `helpers` are children that are no part of the command.

        `started` is called with the command's pid as soon as it runs.
        """
        self._limits = limits
        self._helpers = helpers
        self._started = started
        self._keep_files = keep_files
        self._command = command
        self._env = env
        self._scratch = scratch
        self._timeout = timeout
        self._cgroup = cgroup
        self._poll = select.epoll()
        self._events: list[Event] = []
        self._shots: list[Path] = []
        self._shot: tuple[int, float, Path] | None = None
        self._shot_again = 0.0
        self._reading = -1
        self._holders: list[tuple[str | bytes, int]] = []
        self._first: tuple[int, str, float] | None = None
        self._pending: list[tuple[float, int]] = []
        self._group_heard: list[tuple[float, int]] = []
        self._status: int | None = None
        self._stopped_by: int | None = None
        self._timed_out = False
        self._signals, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._socket = self._listen()

    def run(self) -> Outcome:
        """Return how the command ended; raises CommandError where it cannot be started."""
        limit = core_limit()
        ignored = frozenset(n for n in PASSED_ON if signal.getsignal(n) is signal.SIG_IGN)
        chld = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
        _adopt_orphans()
        with self._handling(ignored):
            self._began = time.time()
            self._pid = start(
                self._command,
                self._env,
                core_limit=limit,
                ignored=ignored | ({signal.SIGCHLD} if chld else frozenset()),
                cgroup=self._cgroup,
                limits=self._limits,
            )
            if self._started is not None:
                self._started(self._pid)
            sentinel = Sentinel(self._pid)
            try:
                if not self._keep_files:
                    _leave_files()
                _more_descriptors()
                self._family = Family(self._pid, self._poll)
                self._family.others |= {sentinel.pid, *self._helpers}
                self._sentinel = sentinel
                self._watch()
            finally:
                sentinel.end()
                self._family.forget()
                self._end_shot(kill=True)
        assert self._status is not None
        number = self._status & 0x7F
        return Outcome(
            pid=self._pid,
            status=128 + number if number else self._status >> 8 & 0xFF,
            signal=number or None,
            began=self._began,
            ended=time.time(),
            members=tuple(self._family.everyone()),
            events=tuple(self._events),
            shots=tuple(path for path in self._shots if path.exists()),
            stopped_by=self._stopped_by,
            timed_out=self._timed_out,
            core_limit=limit[0] if limit is not None else _soft_core_limit(),
            raised_core_limit=limit is not None,
        )

    # --- the loop

    def _watch(self) -> None:
        for descriptor in (self._signals, self._sentinel.pipe):
            self._poll.register(descriptor, select.EPOLLIN)
        if self._socket is not None:
            self._poll.register(self._socket.fileno(), select.EPOLLIN)
        now = time.monotonic()
        self._scan_at, self._sample_at = now + 0.1, now + 0.5
        self._preload_at: float | None = now + _PRELOAD_SECONDS
        self._timeout_at = now + self._timeout if self._timeout is not None else None
        self._kill_at: float | None = None
        self._delay = 0.1
        self._reap()
        while self._status is None:
            self._turn(max(0.0, self._next() - time.monotonic()))
        self._last_words()

    def _next(self) -> float:
        times = [self._scan_at, self._sample_at, self._preload_at, self._timeout_at, self._kill_at]
        times += [when for when, _ in self._pending]
        if self._shot is not None:
            times.append(self._shot[1])
        return min(when for when in times if when is not None)

    def _turn(self, seconds: float) -> None:
        for descriptor, _ in self._poll.poll(seconds):
            if descriptor == self._signals:
                self._drain_signals()
            elif descriptor == self._sentinel.pipe:
                continue  # read below, with the signals that it is about
            elif descriptor == self._reading:
                self._read()
            else:
                self._is_told(descriptor)
        self._reap()
        self._pass_on()
        now = time.monotonic()
        if now >= self._scan_at:
            for member in self._family.scan():
                self._ended(member)
            # A large tree is looked through more seldom, so that it costs a hundredth at most.
            slow = min(100 * self._family.scan_seconds, 5.0)
            self._delay = max(min(self._delay * 1.5, 1.0), slow)
            self._scan_at = now + self._delay
        if now >= self._sample_at:
            self._sample_at = now + max(1.0, 200 * self._family.sample())
        if self._preload_at is not None and now >= self._preload_at:
            self._preload_at = None
            several = sum(one.is_python for one in self._family.members.values()) > 1
            if self._scratch is not None and several:
                from postmortem.run.stacks import preload

                preload()
            else:
                self._preload_at = now + _PRELOAD_SECONDS
        if self._shot is not None and now >= self._shot[1]:
            self._end_shot(kill=True)
        if self._timeout_at is not None and now >= self._timeout_at:
            self._timeout_at = None
            self._out_of_time()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._kill_all()

    def _last_words(self) -> None:
        """Hear what was said before the command's end, and let a shot be finished."""
        for descriptor, _ in self._poll.poll(0):
            self._is_told(descriptor)
        while self._shot is not None:
            left = self._shot[1] - time.monotonic()
            if left <= 0:
                self._end_shot(kill=True)
                break
            self._poll.poll(min(left, 0.05))
            self._drain_signals()
            self._reap()
        command = self._family.members.get(self._pid)
        if command is not None:
            self._family.ends(command, self._status)

    def _is_told(self, descriptor: int) -> None:
        """Hear what a process says, or that it has ended."""
        if self._socket is not None and descriptor == self._socket.fileno():
            self._hear()
            return
        member = self._family.of_descriptor(descriptor)
        if member is not None and member.pid != self._pid:
            self._ended(self._family.ends(member))

    # --- signals

    @contextlib.contextmanager
    def _handling(self, ignored: frozenset[int]) -> Iterator[None]:
        """Take note of signals, but for those that were ignored before: they stay so."""
        taken = [n for n in (*PASSED_ON, signal.SIGTTIN, signal.SIGTTOU) if n not in ignored]
        before = {n: signal.signal(n, _noted) for n in (*taken, signal.SIGCHLD)}
        wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wake)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._poll.close()
            os.close(self._signals)
            os.close(self._wake)
            if self._socket is not None:
                self._socket.close()

    def _drain_signals(self) -> None:
        try:
            numbers = os.read(self._signals, 4096)
        except BlockingIOError:
            return
        for number in numbers:
            if number in PASSED_ON:
                self._pending.append((time.monotonic() + _GROUP_SECONDS, number))

    def _pass_on(self) -> None:
        """Send the command what was sent to us alone; of the group's signals it has its own."""
        now = time.monotonic()
        # Also after a stop of ours, in which the time of what we wait for went by.
        self._group_heard += [(now, number) for number in self._sentinel.heard()]
        self._group_heard = [row for row in self._group_heard if now - row[0] < 1.0]
        left = []
        for when, number in self._pending:
            match = next((row for row in self._group_heard if row[1] == number), None)
            if match is not None:
                self._group_heard.remove(match)
                self._note_signal(number, "to the process group")
            elif now < when:
                left.append((when, number))
            elif self._wait_for_stacks(number):
                left.append((now + 0.05, number))
            else:
                self._note_signal(number, "passed on")
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, number)
        self._pending = left

    def _note_signal(self, number: int, how: str) -> None:
        name = signal.Signals(number).name
        if number not in (signal.SIGCONT, signal.SIGTSTP):
            self._events.append(Event(time.time(), "signal", self._pid, f"{name}, {how}"))
        if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            self._stopped_by = number

    def _wait_for_stacks(self, number: int) -> bool:
        """Return whether a SIGTERM waits: what it ends is read before."""
        if number != signal.SIGTERM or self._scratch is None:
            return False
        if self._reading >= 0:
            return True
        if self._stopped_by is None and not any(path.name == "end.json" for path in self._shots):
            return self._take((), (), "end.json")
        return False

    def _stop_too(self) -> None:
        """Stop as the command has, so that the shell sees its job stopped."""
        self._sentinel.wake_me_with()
        os.kill(os.getpid(), signal.SIGSTOP)

    # --- children

    def _reap(self) -> None:
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None:
                break
            pid = info.si_pid
            member = self._family.members.get(pid)
            if member is not None and member.pidfd >= 0:
                self._family.ends(member)
                if pid != self._pid:
                    self._ended(member)
            try:
                _, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
            if member is not None:
                member.status = status
            if pid == self._pid:
                self._status = status
            elif self._shot is not None and pid == self._shot[0]:
                self._end_shot(kill=False)
        with contextlib.suppress(ChildProcessError):
            info = os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WNOHANG)
            if info is not None and info.si_status in _STOPS and self._status is None:
                self._stop_too()

    def _ended(self, member: Member) -> None:
        """Note how a process of the tree ended, and look at the others if that was a failure."""
        folder = self._scratch.path if self._scratch is not None else None
        if member.status == 0 and not member.raised:
            if folder is not None and member.is_python:
                drop_box(folder, member.pid)
            return
        if not member.failed:
            return
        what = _ending_words(member)
        self._events.append(Event(time.time(), "ended", member.pid, what))
        number = member.signal
        worth = number in _FATAL or (number is None and member.rank is not None)
        if member.raised or not worth or self._stopped_by is not None or folder is None:
            return
        self._note_first(member, what, crashed=number in _FATAL)
        facts, printed = box_of(folder, member.pid)
        if facts.get("error_file"):
            words = f"postmortem: {self._named(member)} {what}"
            write_error_file(Path(facts["error_file"]), folder, f"{words}\n{printed}".rstrip())
        self._take((member.pid,), tuple(self._family.above(member)), None)

    def _named(self, member: Member | None) -> str:
        if member is None:
            return "a process"
        return f"rank {member.rank}" if member.rank is not None else f"pid {member.pid}"

    def _note_first(self, member: Member | None, what: str, *, crashed: bool = False) -> None:
        now = time.time()
        # The peers of a process that crashes raise before its parent, and we, hear of its end.
        if self._first is not None and crashed and now - self._first[2] < CRASH_LEAD_SECONDS:
            self._first = None
        if self._first is None and member is not None:
            self._first = (member.pid, f"{self._named(member)} {what}", now)

    # --- what processes tell

    def _listen(self) -> socket.socket | None:
        if self._scratch is None:
            return None
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        channel.setblocking(False)
        channel.bind(str(self._scratch.socket))
        return channel

    def _hear(self) -> None:
        assert self._socket is not None
        for _ in range(64):
            try:
                data, extra, _, sender = self._socket.recvmsg(8192, 256)
            except OSError:
                return
            pid = next((_CREDENTIALS.unpack(d[:12])[0] for _, kind, d in extra if kind == 2), 0)
            member = self._family.add(pid)
            if member is not None and not member.is_python:
                member.is_python = True
                member.learn()
            if data.startswith(b"raise\n"):
                self._raised(pid, member, data, sender)

    def _raised(
        self, pid: int, member: Member | None, data: bytes, sender: str | bytes | None
    ) -> None:
        name, when, words = (data.decode("utf-8", "replace").split("\n", 3)[1:] + [""] * 3)[:3]
        moment = float(when) if when.replace(".", "", 1).isdigit() else time.time()
        self._events.append(Event(moment, "raised", pid, words, name or None))
        if member is not None:
            member.raised = True
            if member.rank is None:
                member.learn()
        self._note_first(member, f"raised {words}")
        if sender:
            self._holders.append((sender, pid))
            self._answer(sender, "wait")
        if self._stopped_by is not None or not self._take((pid,), (), None):
            self._release()

    def _answer(self, holder: str | bytes, words: str) -> None:
        assert self._socket is not None
        with contextlib.suppress(OSError):
            self._socket.sendto(words.encode("utf-8", "replace")[:4000], holder)

    def _release(self) -> None:
        """Let those go on that wait for the stacks to be taken."""
        for holder, pid in self._holders:
            self._answer(holder, f"go\n{self._place_of(pid)}")
        self._holders.clear()

    def _place_of(self, pid: int) -> str:
        """Return what a process says in torchrun's summary: that it was first, or who was."""
        if self._first is None:
            return ""
        first, words, when = self._first
        if first == pid:
            return f"{words.partition(' raised ')[0]} failed first on this host"
        return f"{words} {max(0.0, time.time() - when):.2f} s ago, and failed first on this host"

    # --- stacks

    def _take(
        self,
        without: tuple[int, ...],
        held: tuple[int, ...],
        name: str | None,
        samples: int = 1,
    ) -> bool:
        """Begin to take the stacks of all others; False where there is nobody, or no more need."""
        from postmortem.run import stacks

        if self._scratch is None:
            return False
        if self._shot is not None:
            return self._reading >= 0
        others = [
            one
            for one in self._family.members.values()
            if one.pid not in without and (one.is_python or one.rank is not None)
        ]
        # Who only waits for the one that failed (a launcher, a shell) has nothing to tell.
        peers = [one for one in others if one.rank is not None or one.pid != self._pid]
        if name is None and not peers:
            return False
        if not others or len(self._shots) >= _MOST_SHOTS:
            return False
        # Who fails in the wake of another is its victim; what is left of the others then, too.
        if name is None and time.monotonic() < self._shot_again:
            return False
        path = self._scratch.path / "stacks" / (name or f"failure-{len(self._shots) + 1}.json")
        shot = stacks.Shot(self._pid, without, held, path, samples)
        pid, self._reading = stacks.take(shot)
        self._poll.register(self._reading, select.EPOLLIN)
        self._family.others.add(pid)
        self._shots.append(path)
        self._shot_again = time.monotonic() + _SHOT_GAP_SECONDS
        limit = stacks.LIMIT_SECONDS + 2.5 * (samples - 1)
        self._shot = (pid, time.monotonic() + limit, path)
        return True

    def _end_shot(self, *, kill: bool) -> None:
        if self._shot is None:
            return
        pid = self._shot[0]
        if kill:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        self._family.others.discard(pid)
        self._shot = None
        self._read()

    def _read(self) -> None:
        """Let go on who waits: all that has to be read is read."""
        if self._reading < 0:
            return
        if not self._poll.closed:
            self._poll.unregister(self._reading)
        os.close(self._reading)
        self._reading = -1
        if self._socket is not None and self._socket.fileno() >= 0:
            self._release()

    # --- time

    def _out_of_time(self) -> None:
        """Look at everyone, then ask the command to end."""
        self._timed_out = True
        assert self._timeout is not None
        words = f"ran for {self._timeout:g} s, as long as it may"
        self._events.append(Event(time.time(), "timeout", self._pid, words))
        self._take((), (), "timeout.json", samples=3)
        while self._reading >= 0 and self._status is None:
            self._turn(max(0.0, self._next() - time.monotonic()))
        self._stopped_by = signal.SIGTERM
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
            os.kill(self._pid, signal.SIGCONT)
        self._kill_at = time.monotonic() + _KILL_SECONDS

    def _kill_all(self) -> None:
        for member in self._family.members.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(member.pid, signal.SIGKILL)


def _noted(number: int, frame: FrameType | None) -> None:
    """Do nothing: the number has gone into the pipe of `set_wakeup_fd`."""


def write_error_file(path: Path, folder: Path, words: str) -> None:
    """Say in torchelastic's file how a process died that could say nothing any more.

    Its agent reads the file when it sees the end, and prints it in its summary.
    """
    if path.is_relative_to(folder) or path == Path(os.devnull):
        return
    document = {
        "message": {
            "message": words.partition("\n")[0],
            "extraInfo": {"py_callstack": words + "\n", "timestamp": str(int(time.time()))},
        }
    }
    with contextlib.suppress(OSError), path.open("x") as stream:
        json.dump(document, stream)


def _ending_words(member: Member) -> str:
    if member.signal is not None:
        try:
            return f"was killed by {signal.Signals(member.signal).name}"
        except ValueError:
            return f"was killed by signal {member.signal}"
    return f"exited with {member.code}"


def _adopt_orphans() -> None:
    """Become the parent of what the command's processes leave behind (prctl(2))."""
    import ctypes

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _leave_files() -> None:
    """Let go of standard input and output: they are the command's."""
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _more_descriptors() -> None:
    """Take as many descriptors as we may: one for each process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _soft_core_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_CORE)[0]


def core_limit() -> tuple[int, int] | None:
    """Return the limit of cores to run with; None where the user has set one already.

    A quarter of what is free where they go, so that a job of many ranks does not fill the disk.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if soft != 0 or hard == 0:
        return None
    try:
        free = os.statvfs(".")
        room = free.f_bavail * free.f_frsize // 4
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES):
            raise
        room = 0
    if hard != resource.RLIM_INFINITY:
        room = min(room, hard)
    return (room, hard) if room > 0 else None
