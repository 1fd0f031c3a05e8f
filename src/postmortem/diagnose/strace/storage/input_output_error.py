"""A device or file server could not read or write.

What it means
    EIO: below the file system something failed: a disk, its link, a RAID, the daemon of a FUSE
    file system or a file server. Data may be lost. On a terminal it only means that the
    terminal is gone.

How to be sure
    The kernel's log (dmesg) names the device. A FUSE mount whose daemon died gives ENOTCONN or
    EIO for everything.

What to do
    Save what is there, then let the disk, mount or server be looked at; the program is not at
    fault.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import folder_of, many, named, times
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures

# A terminal that is gone gives EIO to whoever still writes to it.
_TERMINALS = ("/dev/tty", "/dev/pts/0", "/dev/pts/1", "/dev/console")


@rule("https://man7.org/linux/man-pages/man2/read.2.html")
def input_output_error(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, failures.of("EIO", "EREMOTEIO"))
    groups = tuple(
        g
        for g in groups
        if g.first.syscall not in ("ioctl", "madvise") and g.target.path not in _TERMINALS
    )
    if not groups:
        return
    group = groups[0]
    folder = folder_of(group.target)
    yield of_calls(
        logs,
        groups,
        Confidence.CERTAIN,
        lasting=True,
        title=f"input/output error on {named(group.target, 50)}{many(groups[1:])}",
        cause=f"{times(logs, group)} on {group.target.words} gave {group.errno}",
        next_steps=(
            "dmesg -T | tail -50 : which device, and what did it say?",
            f"findmnt -T {folder} : local disk, FUSE or network?",
            "copy what can still be read to another place before anything else",
        ),
    )
