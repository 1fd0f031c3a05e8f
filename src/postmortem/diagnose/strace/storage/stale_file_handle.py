"""A file of a network file system is gone from the server.

What it means
    ESTALE: the handle by which a client of NFS (or another network file system) knows a file is
    not known to the server any more. Somebody removed or replaced the file on another host
    while it was open here, or the server was restarted, moved or changed its export.

How to be sure
    The same path opened anew works when only the file was replaced, and fails with ESTALE again
    when the mount itself is stale.

What to do
    Open the file again after the error. Do not replace files that running jobs read (write
    beside and keep the old ones); have a stale mount mounted again.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import folder_of, many, named, times
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures


@rule("https://man7.org/linux/man-pages/man2/open.2.html", "https://nfs.sourceforge.net/")
def stale_file_handle(failures: Failures, logs: Logs) -> Findings:
    groups = worst(logs, failures.of("ESTALE"))

    if not groups:
        return
    group = groups[0]
    folder = folder_of(group.target)
    yield of_calls(
        logs,
        groups,
        Confidence.CERTAIN,
        lasting=True,
        title=f"stale file handle on {named(group.target, 50)}{many(groups[1:])}",
        cause=f"{times(logs, group)} on {group.target.words} gave ESTALE: the server no longer "
        "has the file, or no longer exports its file system",
        next_steps=(
            f"stat -f {folder} ; findmnt -T {folder} : which server and export is it?",
            "who removed or replaced the file? jobs that share the folder, a cleaner, a "
            "file renamed over it",
            f"the export moved: leave {folder} on this host, then umount -l and mount again",
        ),
    )
