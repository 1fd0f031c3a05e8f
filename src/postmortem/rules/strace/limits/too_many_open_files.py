"""The limit of open files was reached."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.facts.syscalls import Failures
from postmortem.report.model import Confidence, Role
from postmortem.rules.rule import Finding, rule
from postmortem.rules.strace.calls import cite_calls, named


@rule(
    role=Role.ROOT,
    references=(
        "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
        "https://github.com/pytorch/pytorch/issues/973",
    ),
)
def too_many_open_files(failures: Failures) -> Iterator[Finding]:
    """The limit of open files was reached.

    What it means
        A call that makes a descriptor gave EMFILE (the process has as many as its RLIMIT_NOFILE
        allows) or ENFILE (the whole system has). The path of the failed call is not to blame: it
        is only the one that came too late.

    How to be sure
        Look at what the process held open: ls -l /proc/PID/fd, or the log's opens without a close.

    What to do
        Raise the limit (ulimit -n) or close what is leaked. PyTorch's default of sharing tensors
        by descriptors holds one for each tensor: use the sharing strategy file_system.
    """
    groups = [group for group in failures.of("EMFILE", "ENFILE") if group.real]
    if not groups:
        return
    group = groups[0]
    whole = group.errno == "ENFILE"
    count = sum(len(one.matches) for one in groups)
    who = "the system" if whole else f"pid {group.first.pid}"
    yield Finding(
        title=f"{who} has too many open files: {group.first.syscall} of {named(group.target, 45)}",
        cause=f"{group.errno} came {count:,} times; the paths of those calls are not at fault",
        confidence=Confidence.CERTAIN,
        next_steps=(
            "cat /proc/sys/fs/file-nr" if whole else "ulimit -n ; ulimit -n 65536",
            "in PyTorch: torch.multiprocessing.set_sharing_strategy('file_system')",
        ),
        evidence=cite_calls(group),
    )
