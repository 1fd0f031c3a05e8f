"""System calls in words: which file, socket, child or time they wait for.

Arguments are those of the man pages of section 2; what they point to is read from the process.
"""

import contextlib
import os
import stat
import struct
import time
from collections.abc import Callable, Mapping

from postmortem.facts.live import Descriptor, SystemCall
from postmortem.readers.files import answer_within
from postmortem.readers.live.descriptors import epoll_targets, lock_holders
from postmortem.records import replace
from postmortem.text import more

_FIRST_DESCRIPTOR = {
    "read": "read from", "pread64": "read from", "readv": "read from", "preadv": "read from",
    "preadv2": "read from", "recvfrom": "receive from", "recvmsg": "receive from",
    "recvmmsg": "receive from", "write": "write to", "pwrite64": "write to", "writev": "write to",
    "pwritev": "write to", "sendto": "send to", "sendmsg": "send to", "connect": "connect",
    "accept": "accept a connection at", "accept4": "accept a connection at", "fsync": "fsync of",
    "fdatasync": "fdatasync of", "sync_file_range": "sync of", "ftruncate": "ftruncate of",
    "fallocate": "fallocate of", "fstat": "fstat of", "getdents64": "list", "ioctl": "ioctl of",
    "close": "close", "splice": "splice from", "sendfile": "sendfile to",
    "copy_file_range": "copy from",
}  # fmt: skip
_PATH_AT = {
    **dict.fromkeys(
        "open stat lstat access unlink mkdir rename statfs execve readlink creat".split(), 0
    ),
    **dict.fromkeys(
        "openat openat2 newfstatat fstatat statx faccessat faccessat2 unlinkat mkdirat renameat "
        "renameat2 readlinkat".split(),
        1,
    ),
}
SLEEPS = {"nanosleep": 0, "clock_nanosleep": 2}
_KNOWN = {
    "pause": "waits for a signal (pause)",
    "rt_sigsuspend": "waits for a signal (sigsuspend)",
    "rt_sigtimedwait": "waits for a signal (sigwait)",
    "restart_syscall": "waits, with a time-out",
    "io_getevents": "waits for input or output (libaio)",
    "io_uring_enter": "waits for input or output (io_uring)",
    "msgrcv": "waits for a message (System V)",
    "semop": "waits for a semaphore (System V)",
    "semtimedop": "waits for a semaphore (System V)",
    "exit_group": "is ending",
    "exit": "is ending",
    "sync": "waits for all file systems to be written (sync)",
    "munmap": "waits in munmap",
}
_MOST_POLLED = 64
_LONGEST_PATH = 4096
_NONE = 1 << 63
_SHOWN = 4


Names = Callable[[int], str]
"""Who a process is, in words: ``"rank 2"``, ``"pid 4711 (bash)"``."""


def explained(
    call: SystemCall,
    pid: int,
    descriptors: Mapping[int, Descriptor],
    named: Names,
    describe: Callable[[Descriptor], str] = lambda one: one.words,
) -> SystemCall:
    """Return the call with its arguments named; `describe` says what a descriptor is."""

    def of(number: int) -> str:
        one = descriptors.get(number)
        return describe(one) if one is not None else f"fd {number}"

    name, arguments = call.name, call.arguments
    if name in _FIRST_DESCRIPTOR:
        number = _signed(arguments[0])
        words = f"waits to {_FIRST_DESCRIPTOR[name]} {of(number)}"
        return replace(call, words=words, fds=(number,))
    if name in ("flock", "fcntl"):
        number = _signed(arguments[0])
        one = descriptors.get(number)
        held = lock_holders(pid, one.target) if one is not None and one.kind == "file" else ()
        by = f", held by {', '.join(map(named, held[:_SHOWN]))}" if held else ""
        words = f"waits in {name} of {of(number)}{by}"
        return replace(call, words=words, fds=(number,), holders=tuple(held[:_SHOWN]))
    if name in ("poll", "ppoll", "select", "pselect6") or name.startswith("epoll_"):
        # Its memory is read after its registers: by then the array may be another one.
        numbers = tuple(fd for fd in _polled(name, arguments, pid) if fd in descriptors)
        return replace(call, words=_wait_words(name, arguments, numbers, of), fds=numbers)
    if name in _PATH_AT:
        path = _string(pid, arguments[_PATH_AT[name]])
        return replace(call, words=_path_words(pid, name, path)) if path else _plain(call)
    if name in SLEEPS:
        clock = arguments[0] if name == "clock_nanosleep" and arguments[1] & 1 else None
        return replace(call, words=_sleep_words(pid, arguments[SLEEPS[name]], clock))
    if name in ("wait4", "waitid"):
        return replace(call, words=_child_words(call.child, named))
    if name.startswith("futex"):
        return replace(call, words=f"waits for a lock or a condition (futex {arguments[0]:#x})")
    return _plain(call)


def sqlite_words(pid: int, descriptors: Mapping[int, Descriptor], named: Names) -> str:
    """Return which lock SQLite sleeps for until it tries again: of a file that others lock."""
    for one in descriptors.values():
        held = lock_holders(pid, one.target) if one.kind == "file" else ()
        if held and pid not in held:
            return f"waits for SQLite's lock of {one.words}, held by {', '.join(map(named, held))}"
    return "waits for a lock of SQLite"


def _plain(call: SystemCall) -> SystemCall:
    words = _KNOWN.get(call.name, f"waits in {call.name}")
    return replace(call, words=words)


def _path_words(pid: int, name: str, path: str) -> str:
    doing = "to open" if name.startswith("open") else f"in {name} of"
    start = f"/proc/{pid}/root" if path.startswith("/") else f"/proc/{pid}/cwd/"
    found = answer_within(1.0, lambda: os.stat(start + path))  # noqa: PTH116
    if name.startswith("open") and found is not None and stat.S_ISFIFO(found.st_mode):
        return f"waits to open the FIFO {path}, whose other end nobody opens"
    return f"waits {doing} {path}"


def _polled(name: str, arguments: tuple[int, ...], pid: int) -> tuple[int, ...]:
    if name.startswith("epoll_"):
        return epoll_targets(pid, _signed(arguments[0]))[:_MOST_POLLED]
    if name in ("poll", "ppoll"):
        count = min(arguments[1], _MOST_POLLED)
        data = _memory(pid, arguments[0], 8 * count)
        return tuple(fd for fd, _, _ in struct.iter_unpack("=ihh", data[: len(data) // 8 * 8]))
    found: list[int] = []
    size = (min(arguments[0], 1024) + 7) // 8
    for address in arguments[1:3]:
        bits = int.from_bytes(_memory(pid, address, size) if address else b"", "little")
        found += [number for number in range(size * 8) if bits >> number & 1]
    return tuple(dict.fromkeys(found))[:_MOST_POLLED]


def _wait_words(
    name: str, arguments: tuple[int, ...], numbers: tuple[int, ...], of: Callable[[int], str]
) -> str:
    if not numbers:
        return f"sleeps (in {name})" if not name.startswith("epoll_") else f"waits in {name}"
    shown = "; ".join(map(of, numbers[:_SHOWN])) + more(len(numbers) - _SHOWN)
    at = {"poll": 2, "epoll_wait": 3, "epoll_pwait": 3}.get(name)
    limit = _signed(arguments[at]) if at is not None else -1
    timed = f", at most {limit / 1000:g} s" if limit > 0 else ""
    return f"waits for {shown}{timed} ({name})"


def _sleep_words(pid: int, address: int, clock: int | None) -> str:
    """`clock` is that of a sleep that lasts until a moment (TIMER_ABSTIME)."""
    data = _memory(pid, address, 16)
    if len(data) < 16:
        return "sleeps"
    seconds, nanoseconds = struct.unpack("=qq", data)
    if clock is None:
        return f"sleeps for {seconds + nanoseconds / 1e9:g} s"
    try:
        left = seconds + nanoseconds / 1e9 - time.clock_gettime(clock)
    except OSError:
        return "sleeps"
    return f"sleeps, {max(0.0, left):.0f} s to go"


def _child_words(child: int | None, named: Names) -> str:
    return f"waits for {named(child)} to end" if child else "waits for any child to end"


def _string(pid: int, address: int) -> str | None:
    data = _memory(pid, address, _LONGEST_PATH)
    text = data.partition(b"\0")[0]
    return text.decode("utf-8", "replace") if text else None


def _memory(pid: int, address: int, size: int) -> bytes:
    if not 0 < address < _NONE or size <= 0:
        return b""
    try:
        handle = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        # Not over the end of a page at once: the next one may not be there.
        data = os.pread(handle, min(size, 4096 - address % 4096), address)
        if len(data) < size and len(data) == 4096 - address % 4096:
            with contextlib.suppress(OSError):
                data += os.pread(handle, size - len(data), address + len(data))
        return data
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(handle)


def _signed(value: int) -> int:
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low
