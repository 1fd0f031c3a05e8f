"""Open files of a process: what each is, and who has the other end.

Sources: proc_pid_fd(5), proc_pid_fdinfo(5), proc_pid_net(5), proc_locks(5).
"""

import contextlib
import os
import socket
from collections.abc import Iterable, Iterator, Mapping

from postmortem.facts.live import Descriptor
from postmortem.readers.live.status import all_pids, text_or_none
from postmortem.records import record
from postmortem.text import some

_MOST = 65_536
_STATES = {
    1: "established", 2: "connecting (no answer yet)", 3: "half-open", 4: "closing", 5: "closing",
    6: "closed", 7: "closed", 8: "closed by the peer, and not read to its end", 9: "closing",
    10: "listening", 11: "closing",
}  # fmt: skip
"""include/net/tcp_states.h, in words."""


@record
class Connection:
    """One socket of a network namespace."""

    inode: int
    protocol: str
    local: str
    peer: str
    state: int
    waiting_bytes: int = 0
    """That have come and were not read."""
    unsent_bytes: int = 0
    """That the peer has not taken."""

    @property
    def words(self) -> str:
        """``TCP 10.0.0.1:4711 to 10.0.0.2:29500, established``."""
        if self.protocol == "unix":
            return f"Unix socket {self.local}".rstrip()
        if self.state == 10:
            return f"{self.protocol} listening at {self.local}"
        text = f"{self.protocol} {self.local} to {self.peer}"
        text += f", {_STATES.get(self.state, 'in an unknown state')}"
        if self.waiting_bytes:
            text += f", {self.waiting_bytes:,} bytes unread"
        if self.unsent_bytes:
            text += f", {self.unsent_bytes:,} bytes not taken by the peer"
        return text


def open_files(pid: int) -> Iterator[tuple[int, str]]:
    """Yield number and target of what a process has open; raises OSError where that is hidden."""
    folder = f"/proc/{pid}/fd"
    numbers = sorted(int(name) for name in os.listdir(folder) if name.isdecimal())  # noqa: PTH208
    for number in numbers[:_MOST]:
        with contextlib.suppress(OSError):  # closed meanwhile
            yield number, os.readlink(f"{folder}/{number}")  # noqa: PTH115


def read_descriptors(
    pid: int, connections: Mapping[int, Connection] | None = None
) -> tuple[Descriptor, ...]:
    """Return the open files of a process by number; raises PermissionError."""
    files = list(open_files(pid))
    known = read_connections(pid) if connections is None else connections
    found = []
    for number, target in files:
        kind = _kind(f"/proc/{pid}/fd/{number}", target)
        found.append(Descriptor(number, target, kind, _detail(pid, number, kind, target, known)))
    return tuple(found)


def inode_of(target: str) -> int | None:
    """Return 4711 of ``"socket:[4711]"``."""
    inside = target.rpartition("[")[2].removesuffix("]")
    return int(inside) if target.endswith("]") and inside.isdecimal() else None


def _kind(path: str, target: str) -> str:
    for start, kind in (("socket:", "socket"), ("pipe:", "pipe"), ("/memfd:", "memory")):
        if target.startswith(start):
            return kind
    if target.startswith("anon_inode:"):
        name = target.removeprefix("anon_inode:").strip("[]")
        return {"eventpoll": "epoll", "eventfd": "event"}.get(name, "other")
    if not target.startswith("/"):
        return "other"
    if target.startswith("/dev/shm/"):
        return "memory"
    if target.startswith("/dev/"):
        return "device"
    return "fifo" if _is_fifo(path) else "file"


def _is_fifo(path: str) -> bool:
    """Return whether the link leads to a FIFO.

    Opening nothing, and asking no file server: a FIFO never has a position, and O_PATH alone would
    look at the file's own file system.
    """
    text = text_or_none(path.replace("/fd/", "/fdinfo/"))
    if text is None or _field(text, "pos") != "0":
        return False
    import stat

    from postmortem.readers.files import answer_within

    found = answer_within(1.0, lambda: os.stat(path))  # noqa: PTH116
    return found is not None and stat.S_ISFIFO(found.st_mode)


def _detail(
    pid: int, number: int, kind: str, target: str, known: Mapping[int, Connection]
) -> str | None:
    if kind == "socket":
        one = known.get(inode_of(target) or -1)
        return one.words if one is not None else None
    if kind == "file":
        text = text_or_none(f"/proc/{pid}/fdinfo/{number}") or ""
        position = _field(text, "pos") or "0"
        return f"at byte {int(position):,}" if position.isdecimal() and position != "0" else None
    return None


def _field(text: str, name: str) -> str | None:
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return None


def epoll_targets(pid: int, number: int) -> tuple[int, ...]:
    """Return the descriptors that an epoll descriptor watches."""
    found = []
    for line in (text_or_none(f"/proc/{pid}/fdinfo/{number}") or "").splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "tfd:" and words[1].isdecimal():
            found.append(int(words[1]))
    return tuple(found)


def read_connections(pid: int) -> dict[int, Connection]:
    """Return the sockets of a process's network namespace by their inode."""
    found: dict[int, Connection] = {}
    for name, protocol in (("tcp", "TCP"), ("tcp6", "TCP"), ("udp", "UDP"), ("udp6", "UDP")):
        for line in (text_or_none(f"/proc/{pid}/net/{name}") or "").splitlines()[1:_MOST]:
            one = connection(line, protocol)
            if one is not None:
                found[one.inode] = one
    for line in (text_or_none(f"/proc/{pid}/net/unix") or "").splitlines()[1:_MOST]:
        words = line.split(None, 7)
        if len(words) > 6 and words[6].isdecimal():
            path = words[7] if len(words) > 7 else ""
            found[int(words[6])] = Connection(int(words[6]), "unix", path, "", 1)
    return found


def connection(line: str, protocol: str) -> Connection | None:
    """Return one line of /proc/net/tcp."""
    words = line.split()
    if len(words) < 10 or not words[9].isdecimal():
        return None
    try:
        unsent, waiting = (int(part, 16) for part in words[4].split(":"))
        return Connection(
            inode=int(words[9]),
            protocol=protocol,
            local=_address(words[1]),
            peer=_address(words[2]),
            state=int(words[3], 16),
            waiting_bytes=waiting if int(words[3], 16) != 10 else 0,
            unsent_bytes=unsent,
        )
    except ValueError:
        return None


def _address(text: str) -> str:
    """Return ``127.0.0.1:29500`` of ``0100007F:733C``: words in the machine's own byte order."""
    host, _, port = text.partition(":")
    raw = b"".join(bytes.fromhex(host[i : i + 8])[::-1] for i in range(0, len(host), 8))
    number = int(port, 16)
    if len(raw) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, raw)}:{number}"
    if len(raw) != 16:
        raise ValueError(text)
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        return f"{socket.inet_ntop(socket.AF_INET, raw[12:])}:{number}"
    return f"[{socket.inet_ntop(socket.AF_INET6, raw)}]:{number}"


class OtherEnds:
    """Who has a pipe, a FIFO or a connection's end open, of all processes that can be seen."""

    def __init__(self, labels: Mapping[int, str]) -> None:
        """`labels` are the names of the job's processes, by pid."""
        self._labels = labels
        self._holders: dict[str, list[tuple[int, int]]] | None = None
        self._all_seen = True

    def of(self, pid: int, one: Descriptor, known: Mapping[int, Connection]) -> str | None:
        """Return who is at the other end, in words."""
        if one.kind in ("pipe", "fifo"):
            return self._pipe(pid, one)
        peers = self.peers(one, known)
        return f"the peer is {self._names(peers)}" if peers else None

    def _pipe(self, pid: int, one: Descriptor) -> str | None:
        mine = _access(pid, one.fd)
        wanted = {os.O_RDONLY: (os.O_WRONLY, os.O_RDWR), os.O_WRONLY: (os.O_RDONLY, os.O_RDWR)}
        if mine not in wanted:
            return None
        ends = [
            (other, number)
            for other, number in self._who(one.target)
            if _access(other, number) in wanted[mine]
        ]
        doing = "writing" if mine == os.O_RDONLY else "reading"
        if not ends:
            return f"nobody has it open for {doing}" if self._all_seen else None
        # What a fork() left open in the process itself is no other end.
        others = list(dict.fromkeys(other for other, _ in ends if other != pid))
        if not others:
            return f"only the process itself has it open for {doing}"
        return f"{self._names(others)} {'has' if len(others) == 1 else 'have'} it open for {doing}"

    def peers(self, one: Descriptor, known: Mapping[int, Connection]) -> tuple[int, ...]:
        """Return the processes that have the other end of a connection on this machine."""
        mine = known.get(inode_of(one.target) or -1) if one.kind == "socket" else None
        if mine is None or mine.protocol != "TCP" or mine.state == 10:
            return ()
        for other in known.values():
            same = other.protocol == "TCP" and other.local == mine.peer and other.peer == mine.local
            who = self._who(f"socket:[{other.inode}]") if same else []
            if who:
                return tuple(dict.fromkeys(pid for pid, _ in who))
        return ()

    def _names(self, pids: Iterable[int]) -> str:
        names = list(dict.fromkeys(self._labels.get(pid) or _named(pid) for pid in pids))
        return some(names, 4)

    def _who(self, target: str) -> list[tuple[int, int]]:
        if self._holders is None:
            self._holders = {}
            for pid in all_pids():
                self._look(pid, self._holders)
        return self._holders.get(target, [])

    def _look(self, pid: int, holders: dict[str, list[tuple[int, int]]]) -> None:
        try:
            for number, target in open_files(pid):
                holders.setdefault(target, []).append((pid, number))
        except PermissionError:
            self._all_seen = False
        except OSError:  # it has ended
            return


def lock_holders(pid: int, target: str) -> tuple[int, ...]:
    """Return who holds a lock (flock, fcntl) on a file that `pid` wants, by /proc/locks."""
    from postmortem.readers.files import answer_within

    found = answer_within(1.0, lambda: os.stat(f"/proc/{pid}/root{target}"))  # noqa: PTH116
    if found is None:
        return ()
    name = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    holders = []
    for line in (text_or_none("/proc/locks") or "").splitlines():
        words = line.split()
        if len(words) > 5 and words[1] != "->" and words[5] == name and words[4].isdecimal():
            holders.append(int(words[4]))
    return tuple(dict.fromkeys(holder for holder in holders if holder > 0))


def _access(pid: int, number: int) -> int | None:
    text = _field(text_or_none(f"/proc/{pid}/fdinfo/{number}") or "", "flags")
    try:
        return int(text, 8) & os.O_ACCMODE if text else None
    except ValueError:
        return None


def _named(pid: int) -> str:
    name = (text_or_none(f"/proc/{pid}/comm") or "").strip()
    return f"pid {pid} ({name})" if name else f"pid {pid}"
