"""A file system is mounted read-only.

What it means
    A call that would change a file system gave EROFS: it is mounted read-only, by intention (a
    container image, a squashfs, a mount with ro) or because the kernel closed it after errors
    of the disk.

How to be sure
    findmnt -T FOLDER shows the mount and its options.

What to do
    Write to a folder that is meant for it (TMPDIR, HOME, XDG_CACHE_HOME, TORCH_HOME,
    TRITON_CACHE_DIR can be set), or mount it writable. After errors of the disk have the file
    system checked first.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import folder_of, many, named, times
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures


@rule(
    "https://man7.org/linux/man-pages/man2/open.2.html",
    "https://man7.org/linux/man-pages/man2/mount.2.html",
)
def read_only_file_system(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, failures.of("EROFS"))

    if not groups:
        return
    group = groups[0]
    folder = folder_of(group.target)
    yield of_calls(
        logs,
        groups,
        Confidence.CERTAIN,
        title=f"read-only file system: {named(group.target, 50)}{many(groups[1:])}",
        cause=f"{times(logs, group)} on {group.target.words} gave EROFS: nothing can be written "
        f"under {folder}",
        next_steps=(
            f"findmnt -T {folder} : is ro among its options?",
            "in a container: mount that folder writable (-v without :ro), or let the "
            "program write elsewhere",
            "a disk that was writable until now: dmesg -T | grep -i 'remount\\|error' says "
            "why the kernel closed it",
        ),
    )
