"""The processes of a command: who they are, how much memory they held, how each ended."""

import contextlib
import fcntl
import json
import os
import select
import struct
import time
from collections import deque
from pathlib import Path

from postmortem.partial import create_beside
from postmortem.readers.launcher import find_placement
from postmortem.readers.live.status import children, descendants, read_environment, stat_fields
from postmortem.readers.siginfo import signal_name

_MOST = 8192
_SAMPLES = 64
_PAGE = os.sysconf("SC_PAGE_SIZE")
# include/uapi/linux/pidfd.h: _IOWR(0xFF, 11, struct pidfd_info), of 64 bytes in its first version
_GET_INFO = 0xC040FF0B
_INFO_EXIT = 1 << 3
_EXIT_CODE = 49
"""Of the fields of /proc/PID/stat behind the state (proc_pid_stat(5): the 52nd)."""


class Member:
    """One process, as long as it lives and after."""

    def __init__(self, pid: int, ppid: int) -> None:
        self.pid = pid
        self.ppid = ppid
        self.began = time.time()
        self.ended: float | None = None
        self.status: int | None = None
        """As wait(2) has it; None while it lives, or where nobody can tell."""
        self.argv: tuple[str, ...] = ()
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.world_size: int | None = None
        self.cwd: str | None = None
        self.is_python = False
        self.raised = False
        self.pidfd = -1
        self.samples: deque[tuple[float, int, str]] = deque(maxlen=_SAMPLES)
        """When, resident bytes, state."""
        self.peak = 0

    def learn(self) -> None:
        """Read who it is; again after exec, which changes that."""
        try:
            with open(f"/proc/{self.pid}/cmdline", "rb") as stream:  # noqa: PTH123
                words = stream.read(65536).rstrip(b"\0").split(b"\0")
            self.argv = tuple(word.decode("utf-8", "surrogateescape") for word in words)
            self.cwd = os.readlink(f"/proc/{self.pid}/cwd")  # noqa: PTH115
        except OSError:
            return
        place = find_placement(read_environment(self.pid) or {})
        self.rank, self.local_rank = place.rank, place.local_rank
        self.world_size = place.world_size

    def sample(self, now: float) -> None:
        """Note how much memory it holds, and its state."""
        try:
            with open(f"/proc/{self.pid}/statm", "rb") as stream:  # noqa: PTH123
                resident = int(stream.read(256).split()[1]) * _PAGE
        except (OSError, IndexError, ValueError):
            return
        stat = stat_fields(f"/proc/{self.pid}/stat")
        if resident and stat is not None:
            self.samples.append((now, resident, stat[0]))
            self.peak = max(self.peak, resident)

    @property
    def signal(self) -> int | None:
        """The signal that ended it."""
        return self.status & 0x7F if self.status is not None and self.status & 0x7F else None

    @property
    def code(self) -> int | None:
        """What it exited with."""
        return self.status >> 8 & 0xFF if self.status is not None and not self.signal else None

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.signal is None:
            return f"exited with {self.code}"
        return f"was killed by {signal_name(self.signal)}"

    @property
    def failed(self) -> bool:
        """Whether it ended, and not with 0."""
        return bool(self.status)


class Family:
    """All processes that descend from a command, watched through descriptors of the kernel."""

    def __init__(self, command: int, poll: select.epoll) -> None:
        self.command = command
        self.members: dict[int, Member] = {}
        self.past: list[Member] = []
        """Those that ended; of the many that ended well only the last."""
        self.others: set[int] = set()
        """Children of ours that are no part of it."""
        self._poll = poll
        self._by_fd: dict[int, Member] = {}
        self._zombies: set[int] = set()
        """Pids of those that ended, until their parents have waited for them."""
        self._own = os.getpid()
        self.scan_seconds = 0.0
        self.add(command, self._own)

    def add(self, pid: int, ppid: int | None = None) -> Member | None:
        """Return the member with a pid, and watch it from now on; None if it is gone."""
        known = self.members.get(pid)
        if known is not None:
            return known
        if pid in self.others or len(self.members) >= _MOST or self._has_ended(pid):
            return None
        if ppid is None:
            stat = stat_fields(f"/proc/{pid}/stat")
            if stat is None:
                return None
            ppid = int(stat[1])
        member = Member(pid, ppid)
        try:
            member.pidfd = os.pidfd_open(pid)
            self._poll.register(member.pidfd, select.EPOLLIN)
            self._by_fd[member.pidfd] = member
        except ProcessLookupError:
            return None
        except OSError:  # too many open files, an old kernel: scans see its end
            pass
        member.learn()
        self.members[pid] = member
        return member

    def _has_ended(self, pid: int) -> bool:
        if pid not in self._zombies:
            return False
        stat = stat_fields(f"/proc/{pid}/stat")
        return stat is None or stat[0] == "Z"  # else another process has its number now

    def scan(self) -> list[Member]:
        """Find new members, and return those that ended unseen."""
        began = time.perf_counter()
        below = children()
        below[self._own] = [pid for pid in below.get(self._own, ()) if pid not in self.others]
        alive = descendants([self._own], below)
        self._zombies &= set(alive)
        for pid, parent in alive.items():
            known = self.members.get(pid)
            if known is None:
                self.add(pid, parent)
            elif known.ppid != parent:
                known.ppid = parent
        gone = [one for pid, one in self.members.items() if pid not in alive and one.pidfd < 0]
        self.scan_seconds = time.perf_counter() - began
        return [self.ends(one) for one in gone]

    def of_descriptor(self, fd: int) -> Member | None:
        """Return whose end a descriptor tells."""
        return self._by_fd.get(fd)

    def ends(self, member: Member, status: int | None = None) -> Member:
        """Note that a process has ended; how it did is asked of the kernel if it is not given."""
        member.ended = time.time()
        member.status = status if status is not None else _exit_status(member)
        if member.pidfd >= 0:
            del self._by_fd[member.pidfd]
            self._poll.unregister(member.pidfd)
            os.close(member.pidfd)
            member.pidfd = -1
        self.members.pop(member.pid, None)
        self.past.append(member)
        self._zombies.add(member.pid)
        if len(self.past) > _MOST:
            self.past = [one for one in self.past if one.failed or one.is_python][-_MOST // 2 :]
        return member

    def sample(self) -> float:
        """Note the memory of all who matter, and return how long that took."""
        began, now = time.perf_counter(), time.time()
        for one in self.members.values():
            if one.is_python or one.rank is not None or one.pid == self.command:
                one.sample(now)
        return time.perf_counter() - began

    def everyone(self) -> list[Member]:
        """Return all, in the order in which they began."""
        return sorted([*self.past, *self.members.values()], key=lambda one: (one.began, one.pid))

    def above(self, member: Member) -> list[int]:
        """Return the processes between a member and us, the nearest first."""
        found: list[int] = []
        pid = member.ppid
        while pid in self.members and pid not in found:
            found.append(pid)
            pid = self.members[pid].ppid
        return found

    def forget(self) -> None:
        """Close what is open."""
        for member in self.members.values():
            if member.pidfd >= 0:
                os.close(member.pidfd)
                member.pidfd = -1


def _exit_status(member: Member) -> int | None:
    """Return how a process ended that is not our child; None where nobody can tell."""
    stat = stat_fields(f"/proc/{member.pid}/stat")
    if stat is not None and stat[0] in ("Z", "X") and len(stat) > _EXIT_CODE:
        return int(stat[_EXIT_CODE])
    if member.pidfd < 0:
        return None
    # Linux 6.15 keeps it for who has a descriptor, also when its parent has asked for it.
    info = bytearray(struct.pack("<Q", _INFO_EXIT) + bytes(56))
    try:
        fcntl.ioctl(member.pidfd, _GET_INFO, info)
    except OSError:
        return None
    mask = struct.unpack_from("<Q", info)[0]
    return int(struct.unpack_from("<i", info, 60)[0]) if mask & _INFO_EXIT else None


def box_of(folder: Path, pid: int) -> tuple[dict[str, str], str, float]:
    """Return what the box of a process says, what a crash printed into it, and when.

    The texts are empty where it has none; of a pid that was used twice the last counts.
    """
    from postmortem.readers.regular import open_regular

    found = sorted((folder / "box").glob(f"{pid}-*.box"), key=lambda path: path.name)
    if not found:
        return {}, "", time.time()
    try:
        with open_regular(found[-1]) as stream:
            data = stream.read(1 << 20)
            written = os.fstat(stream.fileno()).st_mtime
    except OSError:
        return {}, "", time.time()
    rows = data[:8192].rstrip(b"\0").decode("utf-8", "replace").splitlines()
    facts = dict(row.partition(" ")[::2] for row in rows[1:])
    printed = data[8192:].decode("utf-8", "replace")
    return facts, printed, written if printed else time.time()


def drop_box(folder: Path, pid: int) -> None:
    """Remove the box of a process that ended well."""
    for path in (folder / "box").glob(f"{pid}-*.box"):
        path.unlink(missing_ok=True)


def write_error_file(path: Path, folder: Path, words: str, when: float) -> None:
    """Say in torchelastic's file how a process died that could say nothing any more, and when.

    Its agent reads the file when it sees the end, and prints it in its summary, whose root cause is
    the earliest: peers may have failed before a core was written. Of files below `folder`, which
    are ours, nobody reads that.
    """
    if path.is_relative_to(folder) or path == Path(os.devnull):
        return
    document = {
        "message": {
            "message": words.partition("\n")[0],
            "extraInfo": {"py_callstack": words + "\n", "timestamp": str(int(when))},
        }
    }
    with contextlib.suppress(OSError):
        descriptor, beside = create_beside(path)
        try:
            with os.fdopen(descriptor, "w") as stream:
                json.dump(document, stream)
            path.hardlink_to(beside)  # whole at once: an agent that reads half of it raises itself
        finally:
            beside.unlink()
