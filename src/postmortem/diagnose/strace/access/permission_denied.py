"""A call was not allowed.

What it means
    EACCES: the bits of the file, or of one folder on the way to it (each needs x), do not allow
    this user what was asked. EPERM: the call needs a capability, or the owner; in containers
    also a seccomp filter gives it. Security modules (SELinux, AppArmor) give both. Programs ask
    for much that they can do without: a refusal counts when the program ends soon after.
How to be sure
    namei -l PATH shows owner and bits of every component; compare with id, run as the job's
    user.
What to do
    Give the user access (chmod, chown, setfacl, a group), or let the program use a path that it
    owns. For capabilities in a container: --cap-add.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.arguments import argument, flags
from postmortem.diagnose.strace.calls import named, quoted, times
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.diagnose.strace.stderr_errors import spoken_errors
from postmortem.facts.syscall_logs import Fate, Logs
from postmortem.facts.syscalls import FailedCalls, Failures

_PATHS = frozenset({
    "open", "openat", "openat2", "creat", "mkdir", "mkdirat", "unlink", "unlinkat", "rename",
    "renameat", "renameat2", "rmdir", "link", "linkat", "symlink", "symlinkat", "execve",
    "execveat", "chdir", "truncate", "mknod", "mknodat", "connect", "chmod", "fchmodat", "chown",
    "fchownat", "opendir", "mq_open", "bind", "access", "faccessat", "stat", "newfstatat", "statx",
    "mmap",
})  # fmt: skip
_SPECIAL = {
    "process_vm_readv": ": reading another process's memory needs CAP_SYS_PTRACE (UCX, MPI and "
    "NCCL do so between ranks of a host; docker run --cap-add SYS_PTRACE)",
    "process_vm_writev": ": writing another process's memory needs CAP_SYS_PTRACE",
    "ptrace": ": tracing needs CAP_SYS_PTRACE or kernel.yama.ptrace_scope=0",
    "mount": ": mounts need CAP_SYS_ADMIN",
    "unshare": ": namespaces need CAP_SYS_ADMIN or user namespaces",
    "setns": ": namespaces need CAP_SYS_ADMIN",
    "sched_setscheduler": ": real-time scheduling needs CAP_SYS_NICE",
    "setpriority": ": a higher priority needs CAP_SYS_NICE",
    "kill": ": the process belongs to another user",
    "socket": ": a seccomp filter or a security module forbids it",
    "clone3": ": a seccomp filter forbids it; the C library takes clone instead after ENOSYS alone "
    "(older container runtimes, newer images)",
}
_RAW = ": a raw socket needs CAP_NET_RAW"
_PORT = ": ports below net.ipv4.ip_unprivileged_port_start (1024) need CAP_NET_BIND_SERVICE"
_DEVICES = ("/dev/nvidia", "/dev/infiniband/", "/dev/char/")
"""They have a rule of their own; CUDA tries to make links to them anew at each start."""


@rule(
    "https://man7.org/linux/man-pages/man7/path_resolution.7.html",
    "https://man7.org/linux/man-pages/man7/capabilities.7.html",
)
def permission_denied(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, tuple(g for g in _last_first(failures) if not _only_looked(logs, g)))
    if not groups:
        return
    group = groups[0]
    match = group.first
    special = _SPECIAL.get(match.syscall)
    if match.errno == "EACCES" and match.syscall == "bind":
        special = _PORT
    if match.syscall == "socket" and {"SOCK_RAW", "AF_PACKET"} & (
        flags(match, 0) | flags(match, 1)
    ):
        special = _RAW
    what = _asked_for(group)
    nameless = special is not None and group.target.path is None  # chown has a file, kill has none
    of = "" if nameless else f" of {named(group.target, 40)}"
    on = "" if nameless else f" on {group.target.words}"
    yield of_calls(
        logs,
        groups,
        Confidence.LIKELY,
        title=f"no permission{what}: {match.syscall}{of}",
        cause=(f"{times(logs, group)}{on} gave {group.errno}{special or ''}"),
        next_steps=(
            f"namei -l {quoted(group.target)} : which folder or file on the way forbids it?",
            "id : run it as the user, and in the container, that the job has",
        )
        if special is None
        else (
            "grep -iE 'cap|seccomp' /proc/self/status ; capsh --print : what may the process do?",
        ),
    )


_WRITES = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC")
_ASKING = ("access", "faccessat", "faccessat2", "stat", "newfstatat", "statx")


def _last_first(failures: Failures) -> tuple[FailedCalls, ...]:
    """Return the groups with the last first: a program ends of that, and has outlived the others.

    Those which only ask what is there come behind those which do something.
    """
    groups = [group for group in failures.of("EACCES", "EPERM") if _matters(group)]
    return tuple(sorted(groups, key=lambda g: (g.syscalls[-1] in _ASKING, -g.matches[-1].line)))


def _only_looked(logs: Logs, group: FailedCalls) -> bool:
    """Return whether a process looked for something, as along PATH, and got on without it.

    So it did where it ended well, or said that another error ended it.
    """
    if not all(call in _ASKING for call in group.syscalls):
        return False
    last = group.matches[-1]
    task = logs.task(last.pid)
    said = {name for name, _ in spoken_errors(task)} if task is not None else set()
    return logs.fate(last) is Fate.SURVIVED or (bool(said) and not said & {"EACCES", "EPERM"})


def _matters(group: FailedCalls) -> bool:
    path = group.target.path or ""
    # Python goes on where it cannot keep what it compiled.
    if path.startswith(("/proc/", "/sys/", *_DEVICES)) or "/__pycache__/" in path:
        return False
    syscall = group.first.syscall
    return syscall in _SPECIAL or (syscall in _PATHS and bool(path))


def _asked_for(group: FailedCalls) -> str:
    call = group.first
    if call.syscall in ("open", "openat", "openat2", "creat"):
        asked = argument(call, 1 if call.syscall == "open" else 2)
        writes = call.syscall == "creat" or any(flag in asked for flag in _WRITES)
        return " to write" if writes else " to read"
    return " to run it" if group.first.syscall.startswith("exec") else ""
