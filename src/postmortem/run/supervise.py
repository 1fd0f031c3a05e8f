"""Runs a command in our place, and watches all that it starts until it ends.

The command has our descriptors, process group and terminal themselves: nothing of what it reads or
writes passes through here. Signals that are meant for it are passed on, its stops are ours.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from postmortem.facts.crash import CRASH_SIGNALS
from postmortem.records import record
from postmortem.run import own_process
from postmortem.run.channel import Channel
from postmortem.run.family import Family, Member, box_of, drop_box, write_error_file
from postmortem.run.outcome import CRASH_LEAD_SECONDS, Event, Outcome
from postmortem.run.relay import Relay
from postmortem.run.scratch import Scratch
from postmortem.run.sentinel import PASSED_ON, Sentinel
from postmortem.run.shots import Shots
from postmortem.run.stacks import TIMEOUT_SAMPLES
from postmortem.run.start import start

_PRELOAD_SECONDS = 0.5
_KILL_SECONDS = 10.0
"""How long a command that ran out of time has after SIGTERM."""
_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_FATAL = frozenset(signal.Signals[name] for name in CRASH_SIGNALS | {"SIGKILL"})


@record
class _First:
    """Who failed first on this host."""

    pid: int
    who: str
    what: str
    when: float


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
        self._first: _First | None = None
        self._status: int | None = None
        self._stopped_by: int | None = None
        self._timed_out = False
        self._relay = Relay()
        self._channel = Channel(scratch.socket) if scratch is not None else None

    def run(self) -> Outcome:
        """Return how the command ended; raises CommandError where it cannot be started."""
        limit = own_process.core_limit()
        ignored = frozenset(n for n in PASSED_ON if signal.getsignal(n) is signal.SIG_IGN)
        chld = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
        own_process.adopt_orphans()
        with self._open(), self._relay.handling(ignored):
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
                    own_process.leave_files()
                own_process.more_descriptors()
                self._family = Family(self._pid, self._poll)
                self._family.others |= {sentinel.pid, *self._helpers}
                self._sentinel = sentinel
                folder = self._scratch.path if self._scratch is not None else None
                self._shots = Shots(folder, self._family, self._poll, self._release)
                self._watch()
            finally:
                sentinel.end()
                self._family.forget()
                self._shots.end(kill=True)
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
            shots=self._shots.written,
            stopped_by=self._stopped_by,
            timed_out=self._timed_out,
            core_limit=limit[0] if limit is not None else own_process.soft_core_limit(),
            raised_core_limit=limit is not None,
        )

    @contextlib.contextmanager
    def _open(self) -> Iterator[None]:
        """Close in the end what processes are heard through."""
        try:
            yield
        finally:
            self._poll.close()
            if self._channel is not None:
                self._channel.close()

    # --- the loop

    def _watch(self) -> None:
        for descriptor in (self._relay.pipe, self._sentinel.pipe):
            self._poll.register(descriptor, select.EPOLLIN)
        if self._channel is not None:
            self._poll.register(self._channel.fileno(), select.EPOLLIN)
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
        times += [*self._relay.times, self._shots.until]
        return min(when for when in times if when is not None)

    def _turn(self, seconds: float) -> None:
        for descriptor, _ in self._poll.poll(seconds):
            if descriptor == self._relay.pipe:
                self._relay.drain()
            elif descriptor == self._sentinel.pipe:
                continue  # read below, with the signals that it is about
            elif descriptor == self._shots.pipe:
                self._shots.read()
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
        if self._shots.until is not None and now >= self._shots.until:
            self._shots.end(kill=True)
        if self._timeout_at is not None and now >= self._timeout_at:
            self._timeout_at = None
            self._out_of_time()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._kill_all()

    def _last_words(self) -> None:
        """Hear what was said before the command's end, and let a shot be finished.

        A signal that came to us, too, and is the command's end stopped it, whoever was meant.
        """
        self._relay.drain()
        ended = self._status or 0
        for number in self._relay.undecided:
            if number in (ended & 0x7F, (ended >> 8) - 128):
                self._note_signal(number, "to the process group")
        for descriptor, _ in self._poll.poll(0):
            self._is_told(descriptor)
        while self._shots.until is not None:
            left = self._shots.until - time.monotonic()
            if left <= 0:
                self._shots.end(kill=True)
                break
            if self._shots.pipe in dict(self._poll.poll(min(left, 0.05))):
                self._shots.read()
            self._relay.drain()
            self._reap()
        if command := self._family.members.get(self._pid):
            self._family.ends(command, self._status)

    def _is_told(self, descriptor: int) -> None:
        """Hear what a process says, or that it has ended."""
        if self._channel is not None and descriptor == self._channel.fileno():
            self._hear()
            return
        member = self._family.of_descriptor(descriptor)
        if member is not None and member.pid != self._pid:
            self._ended(self._family.ends(member))

    # --- signals

    def _pass_on(self) -> None:
        """Send the command what was sent to us alone; of the group's signals it has its own."""
        for number, of_group in self._relay.due(self._sentinel.heard(), self._wait_for_stacks):
            self._note_signal(number, "to the process group" if of_group else "passed on")
            if not of_group:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, number)

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
        if self._shots.reading:
            return True
        if self._stopped_by is None and not self._shots.has("end.json"):
            return self._shots.take(name="end.json")
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
            elif pid == self._shots.pid:
                self._shots.end(kill=False)
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
        what = member.ending
        self._events.append(Event(time.time(), "ended", member.pid, what))
        number = member.signal
        worth = number in _FATAL or (number is None and member.rank is not None)
        if member.raised or not worth or self._stopped_by is not None or folder is None:
            return
        self._note_first(member, what, crashed=number in _FATAL)
        facts, printed, when = box_of(folder, member.pid)
        if facts.get("error_file"):
            words = f"postmortem: {self._named(member)} {what}\n{printed}".rstrip()
            write_error_file(Path(facts["error_file"]), folder, words, when)
        self._shots.take((member.pid,), tuple(self._family.above(member)))

    def _named(self, member: Member | None) -> str:
        if member is None:
            return "a process"
        return f"rank {member.rank}" if member.rank is not None else f"pid {member.pid}"

    def _note_first(self, member: Member | None, what: str, *, crashed: bool = False) -> None:
        now = time.time()
        # The peers of a process that crashes raise before its parent, and we, hear of its end.
        if self._first is not None and crashed and now - self._first.when < CRASH_LEAD_SECONDS:
            self._first = None
        if self._first is None and member is not None:
            self._first = _First(member.pid, self._named(member), what, now)

    # --- what processes tell

    def _hear(self) -> None:
        assert self._channel is not None
        for pid, data, sender in self._channel.hear():
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
        if sender and self._channel is not None:
            self._channel.hold(sender, pid)
        if self._stopped_by is not None or not self._shots.take((pid,)):
            self._release()

    def _release(self) -> None:
        """Let those go on that wait for the stacks to be taken."""
        if self._channel is not None:
            self._channel.release(self._place_of)

    def _place_of(self, pid: int) -> str:
        """Return which it was, and what it says in torchrun's summary: that, or who was first."""
        if self._first is None:
            return ""
        first = self._first
        if first.pid == pid:
            return f"first\n{first.who} failed first on this host"
        ago = max(0.0, time.time() - first.when)
        return f"later\n{first.who} {first.what} {ago:.2f} s ago, and failed first on this host"

    # --- time

    def _out_of_time(self) -> None:
        """Look at everyone, then ask the command to end."""
        self._timed_out = True
        assert self._timeout is not None
        words = f"ran for {self._timeout:g} s, as long as it may"
        self._events.append(Event(time.time(), "timeout", self._pid, words))
        self._shots.take(name="timeout.json", samples=TIMEOUT_SAMPLES)
        while self._shots.reading and self._status is None:
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
