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

from collections.abc import Iterator

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.diagnose.strace import calls
from postmortem.diagnose.strace.benign_errors import is_of_device
from postmortem.diagnose.strace.calls import who
from postmortem.diagnose.strace.severity import weigh, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures

# Calls that make a file or folder: they take an inode and at most a block.
_MAKES = ("open", "openat", "openat2", "creat", "mkdir", "mkdirat", "mknod", "symlink", "symlinkat")


@rule(
    "https://man7.org/linux/man-pages/man2/write.2.html",
    "https://man7.org/linux/man-pages/man2/open.2.html",
)
def disk_full(failures: Failures, logs: Logs) -> Findings:
    files = worst(
        logs,
        tuple(
            group
            for group in failures.of("ENOSPC")
            if not calls.in_shared_memory(group.target) and calls.kernel_table(group) is None
            if not is_of_device(group.errno, group.first.syscall, group.target.path)
        ),
    )
    if not files:
        return
    group = files[0]
    weight = weigh(logs, group.matches[-1], Confidence.CERTAIN, lasting=True)
    inferred = all(match.inferred for match in group.matches)
    written = group.target.written_bytes
    after = f", after {written:,} bytes had been written to it" if written else ""
    makes = not written and all(call in _MAKES for call in group.syscalls)
    inodes = "; it could not even be made: no inode is left (df -i), or no block" if makes else ""
    yield Finding(
        title=f"no space left for {calls.named(group.target)}{calls.many(files[1:])}",
        cause=f"{calls.times(logs, group)} on {group.target.words} failed with ENOSPC"
        f"{after}{inodes}{weight.words}",
        confidence=Confidence.LIKELY if inferred else weight.confidence,
        next_steps=_steps(group, makes=makes),
        evidence=(
            *(row for one in files[:3] for row in calls.cite_calls(one)),
            *_said_of_room(logs, group),
        ),
        role=weight.role,
        survived=weight.survived,
        about=calls.subject(group),
    )


def _said_of_room(logs: Logs, group: FailedCalls) -> Iterator[Evidence]:
    """Yield the last statfs() of a folder that the file is in: its type, and how much was free."""
    path = group.target.path or ""
    told = [
        match
        for match in logs.asked("statfs", "fstatfs")
        if match.errno is None
        and match.target.path
        and path.startswith(match.target.path.rstrip("/") + "/")
    ]
    if told:
        nearest = max(told, key=lambda match: (len(match.target.path or ""), match.line))
        yield Evidence(calls.where(nearest), clip(f"{who(nearest.pid)} {nearest.text}", 200))


def _steps(group: FailedCalls, *, makes: bool) -> tuple[str, ...]:
    if group.target.path is None:
        number = "" if group.first.fd is None else f"/{group.first.fd}"
        return (
            "df -h ; df -i : which file system is full?",
            f"while it runs: ls -l /proc/{group.first.pid or 'PID'}/fd{number} ; or record with -y",
        )
    if group.target.path == "/dev/full":
        return (
            "who gave it this name? /dev/full is a device that refuses every write, for tests",
            "no disk is full: leave the device as it is, and write to a file",
        )
    folder = calls.folder_of(group.target)
    if makes:
        return (
            f"df -i {folder} ; df -h {folder}",
            "many small files use up inodes: pack them (tar, WebDataset), or remove old ones",
        )
    return (
        f"df -h {folder} ; df -i {folder}",
        "the file is not whole: remove it, and go back to the last one written before line "
        f"{group.first.line:,}",
    )
