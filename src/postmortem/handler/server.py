"""The socket of Linux 6.17: the kernel connects, asks what we want, and sends the core.

``core_pattern=@@/path``, with `struct coredump_req` and `struct coredump_ack` of
include/uapi/linux/coredump.h. The kernel looks the path up as its first process would see it.
"""

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

from postmortem.errors import EvidenceError
from postmortem.handler.installing import check, current, make_folder, set_pattern
from postmortem.handler.settings import Settings
from postmortem.handler.taking import DEADLINE_SECONDS, Crash, say, take

_REQUEST = struct.Struct("=IIQ")  # its own size, the size of the answer, what the kernel can do
_ANSWER = struct.Struct("=IIQ")  # its own size, 0, what we want
_MARK = struct.Struct("=I")
_KERNEL, _WAIT = 1 << 0, 1 << 3
"""The kernel writes the core, and the process stands still until we close."""
_MARKS = {1: "the answer is too short", 2: "too long", 3: "not supported", 4: "contradicts itself"}
_MOST_REQUEST = 4096

_CREDENTIALS = struct.Struct("=iII")
_PEER_PIDFD = 77
# include/uapi/linux/pidfd.h: _IOWR(0xFF, 11, struct pidfd_info), of 72 bytes since 6.16
_GET_INFO = 0xC048FF0B
_INFO_COREDUMP = 1 << 4
_DUMPED_AS_USER = 1 << 2


def require_kernel(release: str) -> None:
    """Raise EvidenceError where the kernel has no such socket: it would take it for a file name."""
    numbers = [int(part) if part.isdecimal() else 0 for part in release.split("-")[0].split(".")]
    if tuple(numbers[:2]) < (6, 17):
        raise EvidenceError(
            "--socket",
            f"Linux 6.17 has it, this is {release}",
            hint="postmortem install-handler, without --socket, works with any kernel",
        )


def serve(path: Path, settings: Settings, *, replace: bool, ready: Callable[[str], None]) -> None:
    """Take cores until SIGTERM or SIGINT; then core_pattern is as before, also after SIGKILL.

    Raises EvidenceError where that cannot be. `ready` is told what was set.
    """
    require_kernel(os.uname().release)
    pattern = f"@@{path}"
    if not path.is_absolute() or len(os.fsencode(path)) > 100 or any(c in "%\n" for c in str(path)):
        raise EvidenceError(str(path), "the kernel needs an absolute path of at most 100 bytes")
    before = check(replace=replace, ours=pattern)
    make_folder(Path(settings.folder))
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with contextlib.closing(_listen(path)) as server:
        wake, woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(woken)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        guard, alive = _guard(pattern, before, path)
        try:
            set_pattern(pattern)
            ready(f"core_pattern: {before!r} -> {pattern!r}; until this process ends")
            _loop(server, wake, alive, settings)
        finally:
            os.close(alive)
            os.waitpid(guard, 0)
        _finish()


def _listen(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        if path.is_socket():
            _refuse_used(path)
            path.unlink()
    try:
        server.bind(str(path))
        path.chmod(0o600)
    except OSError as error:
        raise EvidenceError(str(path), f"cannot be made: {error.strerror}") from error
    server.listen(128)
    server.setblocking(False)
    return server


def _refuse_used(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise EvidenceError(str(path), "another process listens there already")


def _guard(pattern: str, before: str, path: Path) -> tuple[int, int]:
    """Start who sets core_pattern back as soon as we end; return its pid and what it waits for."""
    waits, alive = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid:
        os.close(waits)
        return pid, alive
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.setsid()
        os.close(alive)
        os.read(waits, 1)
        if current() == pattern:
            set_pattern(before)
        path.unlink(missing_ok=True)
    finally:
        os._exit(0)


def _loop(server: socket.socket, wake: int, alive: int, settings: Settings) -> None:
    takers: set[int] = set()
    while True:
        ready, _, _ = select.select([server.fileno(), wake], [], [])
        if wake in ready:
            numbers = os.read(wake, 4096)
            if any(n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) for n in numbers):
                return
            takers = {pid for pid in takers if not os.waitpid(pid, os.WNOHANG)[0]}
        if server.fileno() in ready:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    if not _is_ours(connection, takers):
                        takers.add(_begin(connection, server, alive, settings))


def _finish() -> None:
    """Wait for the cores that are being taken; each has a deadline of its own."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _is_ours(connection: socket.socket, takers: set[int]) -> bool:
    """Whether it is one of us that crashed: its core would be read by the same code, and so on."""
    try:
        return os.getsid(_peer(connection)[0]) in takers
    except ProcessLookupError:
        return False


def _begin(connection: socket.socket, server: socket.socket, alive: int, settings: Settings) -> int:
    """Take one core in a child, which a deadline ends whatever it does; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(DEADLINE_SECONDS)
        os.close(alive)
        server.close()
        connection.setblocking(True)
        answer(connection, settings)
    finally:
        os._exit(0)


def answer(connection: socket.socket, settings: Settings) -> None:
    """Speak with the kernel, and take the core; what goes wrong is said."""
    try:
        crash = _crash_of(connection)
        _agree(connection)
    except (OSError, ValueError, struct.error) as error:
        say(f"core socket: {error}")
        return
    take(connection.detach(), crash, settings)


def _agree(connection: socket.socket) -> None:
    """Ask for the core; raises ValueError where the kernel does not give it."""
    connection.settimeout(10.0)
    its_size, answer_size, can = _REQUEST.unpack(_exactly(connection, _REQUEST.size))
    if not _REQUEST.size <= its_size <= _MOST_REQUEST or answer_size < _ANSWER.size:
        raise ValueError(f"a request of {its_size} bytes, which is none of the kernel's")
    _exactly(connection, its_size - _REQUEST.size)
    if not can & _KERNEL:
        raise ValueError("the kernel does not offer to write the core")
    connection.sendall(_ANSWER.pack(_ANSWER.size, 0, (_KERNEL | _WAIT) & can))
    (mark,) = _MARK.unpack(_exactly(connection, _MARK.size))
    if mark:
        raise ValueError(f"the kernel refuses the answer: {_MARKS.get(mark, mark)}")
    connection.settimeout(None)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ValueError("the other side ended before it had said what it wants")
        data += piece
    return data


def _crash_of(connection: socket.socket) -> Crash:
    """Return which process it is; the kernel connects in its name."""
    pid, uid = _peer(connection)
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
    except OSError:
        name = "unknown"
    return Crash(pid, uid, _dumped_as_user(connection), int(time.time()), name)


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return pid and user of the process that crashed."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(peer)
    return pid, uid


def _dumped_as_user(connection: socket.socket) -> bool:
    """Whether the user of the process may read its core; False where the kernel does not say."""
    info = bytearray(struct.pack("=Q", _INFO_COREDUMP) + bytes(64))
    try:
        pidfd = connection.getsockopt(socket.SOL_SOCKET, _PEER_PIDFD)
        try:
            fcntl.ioctl(pidfd, _GET_INFO, info)
        finally:
            os.close(pidfd)
    except OSError:
        return False
    (told,) = struct.unpack_from("=Q", info)
    (mask,) = struct.unpack_from("=I", info, 64)
    return bool(told & _INFO_COREDUMP and mask & _DUMPED_AS_USER)
