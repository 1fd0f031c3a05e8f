"""A page of a mapped file could not be had.

What it means
    The process touched memory to which a file is mapped, and the kernel could not give the
    page (SIGBUS, BUS_ADRERR): the file system was full when a hole had to be filled, or the
    file is shorter than its mapping. No call fails, so no errno is in the log.

How to be sure
    A file that was only ftruncated (never written or fallocated) has holes: then a full file
    system is the cause. A file that another process cut is shorter than its mapping now.

What to do
    Look at the room of the file system; reserve the room first (posix_fallocate), so that the
    failure is an error and no signal. For /dev/shm see the size of that mount.
"""

from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.diagnose.strace.calls import cite_calls, folder_of, in_shared_memory, named, subject
from postmortem.diagnose.strace.task_text import who
from postmortem.facts.syscalls import Failures


@rule("https://man7.org/linux/man-pages/man2/mmap.2.html")
def mapped_file_no_room(failures: Failures) -> Findings:
    for group in failures.of("SIGBUS"):
        if group.target.path is None:
            continue
        shared = in_shared_memory(group.target)
        folder = folder_of(group.target)
        yield Finding(
            title=f"SIGBUS on a mapped file: no room, or too short: {named(group.target, 40)}",
            cause=f"{who(group.first.pid)} touched a page of {group.target.words} that the kernel "
            "could not give: the file system was full, or the file had been cut",
            confidence=Confidence.LIKELY,
            next_steps=(
                "df -h /dev/shm ; in a container give it more: docker run --shm-size=8g"
                if shared
                else f"df -h {folder}",
                f"ls -l {folder}: is the file shorter than its mapping?",
            ),
            evidence=cite_calls(group),
            about=subject(group),
        )
