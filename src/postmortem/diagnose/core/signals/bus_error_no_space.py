"""A page of shared memory or of a sparse file could not be given: no space.

What it means
    A file on /dev/shm, another tmpfs or a full disk was given its length in advance and mapped.
    Space is taken only when a page is first touched; there was none left, and a store into
    memory cannot return ENOSPC, so the kernel sends SIGBUS.
How to be sure
    The fault address lies in such a file, inside its length. How full the file system was then
    is not in the core; the figure shown is of now, after the process gave its space back.
What to do
    df -h on the mount while the job runs; give it more (docker --shm-size, a Memory emptyDir
    in Kubernetes, mount -o remount,size=) or use less; delete files of dead processes there.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind, is_memory_backed
from postmortem.diagnose.core.owners import file_name
from postmortem.diagnose.core.shared_memory import is_read, is_torch_segment
from postmortem.diagnose.core.stacks import place
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.facts.memory import MappedFile
from postmortem.text import shell_word


@rule(
    "https://man7.org/linux/man-pages/man5/tmpfs.5.html",
    "https://docs.docker.com/reference/cli/docker/container/run/#shm-size",
)
def bus_error_no_space(crash: Crash) -> Findings:
    if crash.kind is not FaultKind.NO_SPACE or crash.fault is None or crash.fault.file is None:
        return
    file = crash.fault.file
    read = is_read(crash.fault)
    if is_torch_segment(file.path) and not read:
        return  # the DataLoader's case has a rule of its own
    in_memory = is_memory_backed(file)
    folder = file.path.rsplit("/", 1)[0] or "/"
    full = file.filesystem_free is not None and file.filesystem_free < 64 * 1024
    if file.path.startswith("/anon_hugepage") or file.filesystem_type == "hugetlbfs":
        yield _no_huge_page(crash)
        return
    if in_memory and read:
        yield _shorter_or_full(crash, file, folder)
        return
    # Code that is not in the core may have read what somebody has cut off since.
    written = crash.fault.instruction is None or crash.fault.instruction.access is not None
    what = "shared memory" if file.path.startswith("/dev/shm") else "the file system"
    yield Finding(
        title=f"no space left in {what} for the mapped file {file_name(file.path)}",
        cause=f"{crash.words}. A mapped file takes its space only when "
        "a page is first written, and then there was none",
        confidence=Confidence.LIKELY if (in_memory and written) or full else Confidence.POSSIBLE,
        next_steps=(
            f"df -h {shell_word(folder)} while the job runs; ls -l {shell_word(folder)} for files "
            "of dead processes",
            "give it more: docker run --shm-size=16g, in Kubernetes an emptyDir with medium "
            "Memory, else mount -o remount,size=16G /dev/shm"
            if in_memory
            else "free space or a quota on that file system, then run again",
            "in a container also compare memory.current with memory.max of its cgroup: tmpfs pages "
            "count there",
        ),
        evidence=(crash.cited, *crash.frame()),
    )


def _shorter_or_full(crash: Crash, file: MappedFile, folder: str) -> Finding:
    return Finding(
        title=f"the mapped file {file_name(file.path)} lost a page: made shorter, or no space left",
        cause=f"{crash.words}. It was read there: what had been written before is gone only if "
        "somebody made the file shorter; what never was may have found no space",
        confidence=Confidence.POSSIBLE,
        next_steps=(
            "which process gives it its length (ftruncate), and does one shorten it or write it "
            "anew while it is mapped?",
            f"df -h {shell_word(folder)} while the job runs; ls -l {shell_word(folder)} for files "
            "of dead processes",
        ),
        evidence=(crash.cited, *crash.frame()),
    )


def _no_huge_page(crash: Crash) -> Finding:
    return Finding(
        title=f"no huge page was left for the memory that was touched{place(crash.crashed)}",
        cause="huge pages come from a pool of their own (vm.nr_hugepages), which was empty: memory "
        "that was mapped without a reservation finds that out when it is first touched",
        confidence=Confidence.LIKELY,
        next_steps=(
            "grep Huge /proc/meminfo while the job runs; raise it: sysctl vm.nr_hugepages=N",
            "in a container also compare hugetlb.2MB.current with hugetlb.2MB.max of its cgroup",
        ),
        evidence=(crash.cited, *crash.frame()),
    )
