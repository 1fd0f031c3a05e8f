"""A file may not grow further.

What it means
    EFBIG, or the signal SIGXFSZ: the file would pass the process's limit RLIMIT_FSIZE (ulimit
    -f), or the largest file that its file system can hold (4 GiB on FAT, 2 GiB for 32-bit
    programs without large files). The disk is not full.

How to be sure
    ulimit -f in the job's shell; a size near a power of two speaks for the file system.

What to do
    Raise the limit (ulimit -f unlimited, LimitFSIZE= of systemd), write to another file system,
    or split the file.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import folder_of, named, times
from postmortem.diagnose.strace.resource_limits import limit
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures


@rule(
    "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
    "https://man7.org/linux/man-pages/man2/write.2.html",
)
def file_too_large(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, failures.of("EFBIG"))
    if not groups:
        return
    group = groups[0]
    known = limit(logs, "RLIMIT_FSIZE", group.first)
    reached = known is not None and known.value is not None
    why = (
        f"RLIMIT_FSIZE is {known.value:,} bytes"
        if known is not None and known.value is not None
        else "RLIMIT_FSIZE (ulimit -f) or the file system's largest file is reached"
    )
    yield of_calls(
        logs,
        groups[:1],
        Confidence.CERTAIN,
        title=f"the largest size that a file may have is reached: {named(group.target, 45)}",
        cause=f"{times(logs, group)} on {group.target.words} gave EFBIG: {why}",
        lasting=True,
        next_steps=(
            "ulimit -f ; ulimit -f unlimited",
            f"stat -f {folder_of(group.target)} : which type of file system is it?",
        ),
        evidence=(known.evidence,) if reached and known is not None else (),
    )
