"""A table of the kernel is full: no disk is.

What it means
    Some calls give ENOSPC or EMFILE when one of the kernel's own tables is full: watches and
    instances of inotify, semaphores, shared memory segments, message queues, BPF maps, hardware
    counters. "No space left on device" is then not about any disk, and "Too many open files"
    not about descriptors.

How to be sure
    sysctl shows the limit; for inotify: find /proc/*/fd -lname anon_inode:inotify counts the
    instances.

What to do
    Raise the limit (as root, on the host: a container cannot), or find who uses it up: editors,
    file watchers and trackers watch whole trees.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import kernel_table, named
from postmortem.diagnose.strace.severity import of_calls
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures


@rule(
    "https://man7.org/linux/man-pages/man7/inotify.7.html",
    "https://man7.org/linux/man-pages/man2/semget.2.html",
    "https://man7.org/linux/man-pages/man2/shmget.2.html",
)
def kernel_table_full(failures: Failures, logs: Logs) -> Findings:
    for group in failures.of("ENOSPC", "EMFILE", "EDQUOT"):
        table = kernel_table(group)
        if table is None:
            continue
        what, setting = table
        known = group.target.kind != "unknown"
        of = f" of {named(group.target)}" if known else ""
        yield of_calls(
            logs,
            [group],
            Confidence.CERTAIN,
            title=f"{group.syscalls[0]} failed with {group.errno}: a kernel limit, not a disk or "
            "descriptors",
            cause=f"{group.syscalls[0]}{of} gives {group.errno} when {what}; "
            "no file system is full",
            next_steps=(
                f"sysctl {setting}",
                f"raise it: sudo sysctl -w {setting.split()[0]}=VALUE, and in /etc/sysctl.d to "
                "keep it"
                if "." in setting
                else "see who uses it up",
            ),
        )
