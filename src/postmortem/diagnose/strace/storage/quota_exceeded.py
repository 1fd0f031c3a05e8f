"""A disk quota was used up.

What it means
    The kernel refused a call with EDQUOT: the file system has room, but the user, group,
    project or subvolume may have no more of it (blocks or inodes).

How to be sure
    The quota tool of that file system says the same.

What to do
    Free room in the same quota, or ask for more. A file whose write failed is not whole.
"""

from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.diagnose.strace.calls import (
    cite_calls,
    folder_of,
    kernel_table,
    many,
    named,
    subject,
    times,
)
from postmortem.diagnose.strace.severity import weigh, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures


@rule("https://man7.org/linux/man-pages/man2/write.2.html")
def quota_exceeded(failures: Failures, logs: Logs) -> Findings:
    groups = worst(
        logs, tuple(group for group in failures.of("EDQUOT") if kernel_table(group) is None)
    )
    if not groups:
        return
    group = groups[0]
    weight = weigh(logs, group.matches[-1], Confidence.CERTAIN, lasting=True)
    yield Finding(
        title=f"the disk quota is used up: {named(group.target, 55)}{many(groups[1:])}",
        cause=f"{times(logs, group)} on {group.target.words} gave EDQUOT{weight.words}",
        confidence=weight.confidence,
        next_steps=(
            f"quota -s ; lfs quota -u $USER {folder_of(group.target)} (Lustre) ; "
            f"btrfs qgroup show {folder_of(group.target)} (Btrfs)",
            "the file is not whole: remove it and use the one before",
        ),
        evidence=tuple(row for one in groups[:3] for row in cite_calls(one)),
        about=subject(group),
    )
