"""A file or device is in use.

What it means
    ETXTBSY: a program that runs cannot be written to, and a file that is open for writing
    cannot be run. EBUSY: a device has its one user, a folder is a mount point or somebody's
    working directory, or (files named .nfs…) a removed file is still open on NFS.

How to be sure
    fuser -v and lsof name the processes.

What to do
    End the other user, or wait for it. Replace programs by rename and not by writing into them.
    After fork and exec of a file just written: another thread's fork may have inherited the
    writing descriptor; open files with O_CLOEXEC and run again.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import folder_of, named, quoted, times
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures

_MEANING = {
    "ETXTBSY": "a running program is written to, or a file that is open for writing is run",
    "EBUSY": "somebody uses it",
}


@rule(
    "https://man7.org/linux/man-pages/man2/execve.2.html",
    "https://man7.org/linux/man-pages/man2/rmdir.2.html",
)
def file_busy(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, failures.of("ETXTBSY", "EBUSY"))
    groups = tuple(g for g in groups if g.target.path is not None and g.first.syscall != "futex")
    if not groups:
        return
    group = groups[0]
    folder = folder_of(group.target)
    yield of_calls(
        logs,
        groups,
        Confidence.LIKELY,
        title=f"in use: {named(group.target, 45)} ({group.first.syscall} gave {group.errno})",
        cause=f"{times(logs, group)} on {group.target.words} gave {group.errno}: "
        f"{_MEANING[group.errno]}",
        next_steps=(
            f"fuser -v {quoted(group.target)} : who has it open?",
            "write a new file beside it and rename it over the old one: what runs keeps the old one"
            if group.errno == "ETXTBSY"
            else (
                f"lsof +D {folder} ; findmnt {quoted(group.target)} : mounts and working "
                "directories count too"
            ),
        ),
    )
