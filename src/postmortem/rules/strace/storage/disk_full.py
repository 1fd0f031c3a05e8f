"""A file system was full."""

from __future__ import annotations

from collections.abc import Iterator

from postmortem.facts.syscalls import Failures
from postmortem.report.model import Confidence, Role
from postmortem.rules.rule import Finding, rule
from postmortem.rules.strace.calls import cite_calls, folder_of, in_shared_memory, many, named

# Calls that give ENOSPC for something other than room for data or inodes.
_OTHER_MEANING = {
    "inotify_add_watch": "the limit of inotify watches is reached (fs.inotify.max_user_watches)",
    "semget": "the limit of semaphore sets is reached (kernel.sem)",
    "shmget": "the limit of shared memory segments is reached (kernel.shmmni)",
    "msgget": "the limit of message queues is reached (kernel.msgmni)",
    "bpf": "a BPF map is full",
    "perf_event_open": "no hardware counter is free",
    "keyctl": "a key ring is full",
}


@rule(
    role=Role.ROOT,
    references=(
        "https://man7.org/linux/man-pages/man2/write.2.html",
        "https://man7.org/linux/man-pages/man2/inotify_add_watch.2.html",
    ),
)
def disk_full(failures: Failures) -> Iterator[Finding]:
    """A file system was full.

    What it means
        The kernel refused a call with ENOSPC: no block, no inode or no reserved space was left
        where the file lies, when the call was made. It may have been freed since. Failures that
        strace injected (-e inject) do not count.

    How to be sure
        df and df -i of the folder. ENOSPC with free blocks: no inodes are left (df -i), the rest is
        reserved for root, or the folder's own limit (a project quota on XFS) is reached.

    What to do
        Free room or write elsewhere; keep fewer checkpoints. A file whose write failed is not
        whole, even if later writes to it worked.
    """
    groups = [
        group
        for group in failures.of("ENOSPC")
        if group.real and not in_shared_memory(group.target)
    ]
    for group in groups:
        other = next((_OTHER_MEANING[c] for c in group.syscalls if c in _OTHER_MEANING), None)
        if other is not None:
            yield Finding(
                title=f"{group.syscalls[0]} failed with ENOSPC: a kernel limit, not a disk",
                cause=f"{group.syscalls[0]} gives ENOSPC when {other}; no file system is full",
                confidence=Confidence.CERTAIN,
                next_steps=("sysctl fs.inotify kernel.sem kernel.shmmni kernel.msgmni",),
                evidence=cite_calls(group),
            )
    files = [g for g in groups if not any(c in _OTHER_MEANING for c in g.syscalls)]
    if not files:
        return
    group = files[0]
    inferred = all(match.inferred for match in group.matches)
    written = group.target.written_bytes
    count = len(group.matches)
    calls = "call" if count == 1 else "calls"
    cause = (
        f"{count:,} {'/'.join(group.syscalls)} {calls} on {group.target.words} failed with ENOSPC"
    )
    if written:
        cause += f", after {written:,} bytes had been written to it"
    yield Finding(
        title=f"no space left for {named(group.target)}{many(files[1:])}",
        cause=cause,
        confidence=Confidence.LIKELY if inferred else Confidence.CERTAIN,
        next_steps=(
            f"df -h {folder_of(group.target)} ; df -i {folder_of(group.target)}",
            f"the file is not whole: remove it, and go back to the last one written before "
            f"line {group.first.line:,}",
        ),
        evidence=tuple(row for one in files[:3] for row in cite_calls(one)),
    )
