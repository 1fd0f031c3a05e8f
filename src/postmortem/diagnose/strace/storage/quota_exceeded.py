"""A disk quota was used up.

What it means
    The kernel refused a call with EDQUOT: the file system has room, but the user, group,
    project or subvolume may have no more of it (blocks or inodes).

How to be sure
    The quota tool of that file system says the same.

What to do
    Free room in the same quota, or ask for more. A file whose write failed is not whole.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import folder_of, kernel_table, many, named, times
from postmortem.diagnose.strace.severity import of_calls, worst
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
    yield of_calls(
        logs,
        groups,
        Confidence.CERTAIN,
        lasting=True,
        title=f"the disk quota is used up: {named(group.target, 55)}{many(groups[1:])}",
        cause=f"{times(logs, group)} on {group.target.words} gave EDQUOT",
        next_steps=(
            f"quota -s ; lfs quota -u $USER {folder_of(group.target)} (Lustre) ; "
            f"btrfs qgroup show {folder_of(group.target)} (Btrfs)",
            "the file is not whole: remove it and use the one before",
        ),
    )
