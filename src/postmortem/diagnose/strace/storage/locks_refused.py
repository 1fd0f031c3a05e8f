"""A file system refused to lock a file.

What it means
    flock() or fcntl(F_SETLK) gave ENOLCK: the file lies on NFS without its lock service, or on
    Lustre that is mounted without flock. Caches (Hugging Face, Triton), SQLite and HDF5 need
    locks.

How to be sure
    findmnt -T FILE shows file system and options; flock FILE true fails there too.

What to do
    Put the cache on a local disk, or have the file system mounted with locks.
"""

from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.diagnose.strace.calls import cite_calls, many, named, subject, times
from postmortem.diagnose.strace.severity import weigh, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures


@rule("https://man7.org/linux/man-pages/man2/fcntl.2.html")
def locks_refused(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, failures.of("ENOLCK"))
    if not groups:
        return
    from postmortem.knowledge.messages import by_id  # only where there is something to say

    known = by_id()["enolck"]
    group = groups[0]
    weight = weigh(logs, group.matches[-1], Confidence.CERTAIN, lasting=True)
    yield Finding(
        title=f"its file system refused to lock {named(group.target, 55)}{many(groups[1:])}",
        cause=f"{times(logs, group)} on {group.target.words} gave ENOLCK{weight.words}: "
        f"{known.cause[0].lower()}{known.cause[1:].rstrip('.')}",
        confidence=weight.confidence,
        next_steps=(*known.next_steps, "export HDF5_USE_FILE_LOCKING=FALSE, where it is HDF5"),
        evidence=tuple(row for one in groups[:3] for row in cite_calls(one)),
        survived=weight.survived,
        about=subject(group),
    )
