"""The commands that leave evidence: cores as files, and the strace command that records enough to
answer a question, at the least cost.

The kernel's filter (``--seccomp-bpf``) lets calls that are not asked for run at full speed. With
what moves descriptors and the writes, importing torch took 1.2 times as long; with all calls 3.5
times. A filter by status (``-Z``) is cheap too, but drops the opens that worked, without which no
descriptor has a name.
"""

from collections.abc import Iterable, Sequence

from postmortem.facts.call_query import Query

CORES_AS_FILES = "sudo sysctl -w kernel.core_pattern=/tmp/core.%e.%p.%t"
_COMMAND = "strace -f --seccomp-bpf -ttt -T -e trace={} -o strace.txt COMMAND"
_ALL = "strace -f -ttt -T -o strace.txt COMMAND"

_CREATORS = (
    "pipe pipe2 socket socketpair connect bind accept accept4 memfd_create eventfd2 epoll_create1 "
    "timerfd_create signalfd4 inotify_init1 io_uring_setup"
).split()
# What gives tasks their descriptors and folders. ioctl is in it for FIONCLEX, by which Python makes
# descriptors inheritable; getcwd tells what relative paths are relative to.
_FOLLOW = (
    *"open openat openat2 creat close close_range dup dup2 dup3 fcntl ioctl".split(),
    *"clone clone3 fork vfork unshare execve execveat exit_group chdir fchdir getcwd".split(),
    *"rename renameat renameat2 unlink unlinkat sendmsg recvmsg pidfd_open pidfd_getfd".split(),
    "io_submit",  # names the files of what io_getevents() learns of
    *_CREATORS,
)
_WRITES = (
    "write pwrite64 writev pwritev pwritev2 sendfile copy_file_range splice fallocate ftruncate "
    "truncate fsync fdatasync sync_file_range msync mkdir mkdirat mknod mknodat link linkat "
    "symlink symlinkat mmap munmap mremap io_getevents io_pgetevents"
).split()
_READS = "read pread64 readv preadv preadv2 getdents64 fstat newfstatat statx".split()
_SIGNALS = "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal".split()
_MEMORY = "mmap munmap mremap brk mprotect mlock mlockall shmget shmat memfd_create".split()
_NETWORK = (
    "socket connect bind listen accept accept4 sendto recvfrom sendmmsg recvmmsg shutdown "
    "getsockopt poll ppoll select pselect6 epoll_wait epoll_pwait read write writev readv"
).split()

_OF_ERRNO: dict[str, Sequence[str]] = {
    **dict.fromkeys(("ENOSPC", "EDQUOT", "EFBIG"), _WRITES),
    **dict.fromkeys(("EIO", "EROFS", "ESTALE", "EREMOTEIO"), (*_WRITES, *_READS, "%file")),
    **dict.fromkeys(("EMFILE", "ENFILE"), ("timerfd_create", "userfaultfd")),
    "ENOMEM": _MEMORY,
    **dict.fromkeys(
        ("ENOENT", "EACCES", "EPERM", "EEXIST", "ENOTDIR", "EISDIR", "ELOOP", "ENAMETOOLONG",
         "EXDEV", "EBUSY", "ETXTBSY", "ENOTEMPTY"),
        ("%file",),
    ),
    **dict.fromkeys(
        ("ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "EHOSTUNREACH", "ENETUNREACH", "ENETDOWN",
         "EHOSTDOWN", "EADDRINUSE", "EADDRNOTAVAIL", "ETIMEDOUT", "EINPROGRESS", "ENOTCONN"),
        _NETWORK,
    ),
    "EPIPE": (*_NETWORK, *_WRITES),
    "EBADF": (*_READS, *_WRITES),
}  # fmt: skip
_OF_SIGNAL: dict[str, Sequence[str]] = {
    "SIGBUS": ("mmap", "munmap", "mremap", "ftruncate", "truncate", "fallocate"),
    "SIGSEGV": ("mmap", "munmap", "mremap"),
    "SIGPIPE": ("write", "writev", "sendto"),
}
_WITHOUT = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range",
            "splice", "fallocate", "ftruncate", "fsync", "fdatasync", "mkdir", "mkdirat", "linkat",
            "symlinkat", *_SIGNALS[:3])  # fmt: skip
"""What is recorded for a plain summary."""

# Calls that all architectures have had since long before strace 5. The others are marked with ?,
# which lets strace pass over a name that it or the machine does not know (strace(1), -e trace). No
# quotes are around it: a shell that finds no file of that name leaves the word as it is.
_EVERYWHERE = frozenset(
    "openat close dup dup3 fcntl ioctl pipe2 socketpair socket connect bind listen accept accept4 "
    "write pwrite64 writev pwritev read pread64 readv preadv sendfile splice fallocate ftruncate "
    "truncate fsync fdatasync unlinkat mkdirat mknodat linkat symlinkat clone unshare execve "
    "exit_group chdir fchdir getcwd sendmsg recvmsg kill tkill tgkill mmap munmap mremap "
    "brk".split()
)


def record_hint(queries: Sequence[Query] = ()) -> str:
    """Return the command that records what answers the queries; without any, the usual failures."""
    if not queries:
        return _COMMAND.format(_filter((*_FOLLOW, *_WITHOUT)))
    wanted: list[str] = []
    for query in queries:
        names = _needed(query)
        if names is None:
            return _ALL
        wanted += names
    return _COMMAND.format(_filter((*_FOLLOW, *wanted)))


def attach_words(queries: Sequence[Query] = ()) -> list[str]:
    """Return strace's options for a process that lives: all calls where no query narrows them.

    What it opened before has its names from strace (-yy).
    """
    words = (record_hint(queries) if queries else _ALL).split()[1:]
    at = words.index("-o")
    unfit = ("COMMAND", "--seccomp-bpf")  # a filter is for what strace starts
    return ["-yy", *(word for word in words[:at] + words[at + 2 :] if word not in unfit)]


def _needed(query: Query) -> list[str] | None:
    """Return the calls that a query needs beside those that are followed; None for all."""
    if query.calls and not query.signals:
        return [*query.calls]  # an errno beside it narrows what is told of them
    names = [*query.calls]
    for error in query.errors:
        if error not in _OF_ERRNO:
            return None
        names += _OF_ERRNO[error]
    for signal in query.signals:
        names += [*_SIGNALS, *_OF_SIGNAL.get(signal, ())]
    if not (query.errors or query.signals):
        names += ["%file", "%desc"]
    return names


def _filter(names: Iterable[str]) -> str:
    known = dict.fromkeys(names)
    marked = (n if n in _EVERYWHERE or n.startswith("%") else f"?{n}" for n in known)
    return ",".join(marked)
