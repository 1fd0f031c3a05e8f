"""Which errors of a log matter: most are how programs ask whether something is there."""

from postmortem.diagnose.strace.recording_limits import only
from postmortem.facts.syscall_totals import ErrorCount
from postmortem.facts.syscalls import SystemCalls
from postmortem.patterns import Pattern

SERIOUS = (
    "ENOSPC", "EDQUOT", "EIO", "EFBIG", "EMFILE", "ENFILE", "EROFS", "ESTALE", "EREMOTEIO",
    "ENOMEM",
)  # fmt: skip
"""Errors that mean harm wherever they come."""

NETWORK = frozenset({
    "ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "EADDRINUSE", "EADDRNOTAVAIL",
    "ETIMEDOUT", "ECONNABORTED", "ENETDOWN", "EHOSTDOWN",
})  # fmt: skip
"""Errors of peers and addresses."""

_NETWORK_CALLS = frozenset({
    "connect", "bind", "listen", "sendto", "sendmsg", "recvfrom", "recvmsg", "read", "write",
    "accept", "accept4", "readv", "writev",
})  # fmt: skip
_LIBRARY = Pattern(r"/(?P<name>lib[^/]*\.so(?:\.[0-9.]+)?)$")
_OPENS = frozenset({"open", "openat", "openat2"})
# nscd is asked first by every glibc program that looks up a name; it runs hardly anywhere.
NEVER_THERE = (
    "/var/run/nscd/socket", "/run/nscd/socket", "/run/systemd/userdb/", "/run/systemd/resolve/",
    "/dev/log", "/tmp/nvidia-mps/",
)  # fmt: skip
"""Sockets of daemons that the C library asks first, and that hardly any host runs; that of the
system's log, without which every program goes on; and CUDA's, which asks for MPS at each start."""
TERMINALS = ("/dev/tty", "/dev/pts/", "/dev/ptmx", "/dev/console")
"""One that is gone gives EIO to whoever still writes to it, and its master gets that when the last
process has closed it."""
_PROBES = frozenset({"madvise", "mbind", "io_uring_setup", "userfaultfd", "perf_event_open"})


def real_errors(log: SystemCalls) -> tuple[ErrorCount, ...]:
    """Return the errors that may be why something went wrong, the worst first."""
    rows = [row for row in log.errors if row.count > row.injected and _matters(row)]
    rank = {name: index for index, name in enumerate(SERIOUS)}
    return tuple(sorted(rows, key=lambda row: (rank.get(row.errno, 99), row.file, row.line)))


def _matters(row: ErrorCount) -> bool:
    path = row.path or ""
    if path.startswith(NEVER_THERE) or row.syscall in _PROBES:
        return False
    if row.errno in SERIOUS:
        return not is_of_device(row.errno, row.syscall, row.path)
    if row.errno in NETWORK:
        return row.syscall in _NETWORK_CALLS
    if row.errno == "EPIPE":
        return row.kind in ("pipe", "socket")
    if row.errno in ("EACCES", "EPERM"):
        return row.syscall in _OPENS and row.kind == "file"
    return False


def is_of_device(errno: str, syscall: str, path: str | None) -> bool:
    """Return whether a device says that it has no room, or a terminal that it is gone.

    No disk is full, or failed, then.
    """
    if errno == "EIO":
        return (path or "").startswith(TERMINALS)
    return errno == "ENOSPC" and syscall == "ioctl" and (path or "").startswith("/dev/")


def missing_libraries(log: SystemCalls) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return libraries that were looked for and never opened, with the folders searched."""
    if only(log, failed=True):  # what was found is not in the log
        return ()
    searched: dict[str, dict[str, None]] = {}
    found: set[str] = set()
    for row in log.errors:
        match = _LIBRARY.search(row.path or "") if row.syscall in _OPENS else None
        if match is None:
            continue
        if row.errno not in ("ENOENT", "ENOTDIR"):  # it is there, and could not be opened
            found.add(match["name"])
        elif row.errno == "ENOENT" and not _has(log, match["name"]):
            folder = match.string[: match.start()] or "/"
            searched.setdefault(match["name"], {})[folder] = None
    return tuple((name, tuple(folders)) for name, folders in searched.items() if name not in found)


def _has(log: SystemCalls, name: str) -> bool:
    """Return whether a library was opened; a linker (ld) takes libx.a where there is no libx.so."""
    archive = name.removesuffix(".so") + ".a"
    return name in log.libraries or (name.endswith(".so") and archive in log.libraries)


def first_lookup(log: SystemCalls, name: str) -> ErrorCount | None:
    """Return the first vain look-up of a library."""
    for row in log.errors:
        if (
            row.errno == "ENOENT"
            and row.syscall in _OPENS
            and (row.path or "").endswith("/" + name)
        ):
            return row
    return None


SHOWN_ERRORS = (*SERIOUS, "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EADDRINUSE")
"""Errors that mean harm so often that the report shows them whether a rule explains them or not."""

ASKED_ERRORS = (
    *dict.fromkeys((*SHOWN_ERRORS, *sorted(NETWORK))),
    "EPIPE", "EACCES", "EPERM", "ETXTBSY", "EBUSY", "ENAMETOOLONG", "ELOOP", "ENODEV", "ENXIO",
    "ENOLCK", "EDEADLK", "ENOEXEC",
)  # fmt: skip
"""Errors that a rule may explain; where none does they are noise until shown otherwise."""

ASKED_CALLS = (
    "kill", "tkill", "tgkill", "pidfd_send_signal", "rt_sigqueueinfo",
    "prlimit64", "setrlimit", "getrlimit", "connect", "bind", "flock", "sendmmsg", "execve",
    "execveat", "mount", "statfs", "fstatfs",
)  # fmt: skip
"""Calls whose success tells something too: who killed whom, which limit was set."""
