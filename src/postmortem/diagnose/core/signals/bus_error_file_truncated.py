"""A mapped file became shorter, disappeared or could not be read.

What it means
    The program read a file through a memory mapping (weights, a shard, an index) and the page
    could not be had: the file was truncated or rewritten while mapped, its download was never
    complete, it was deleted on a network file system, or the storage gave an error.
How to be sure
    The file and offset come from the core, and the length is compared with the file as it is
    now, not as it was then. A length that is too short now settles it; a file that looks right
    again leaves an input or output error or a rewrite as candidates.
What to do
    Check that the file is whole (size, checksum) and that nothing rewrites it in place while
    jobs read it: write to a new name and rename. On network file systems look at the host's
    kernel log; reading without mmap turns the crash into an error that names the file.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.owners import file_name
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.text import shell_word

_KINDS = {
    FaultKind.FILE_TRUNCATED: "is shorter than the program mapped",
    FaultKind.FILE_GONE: "was deleted or is gone",
    FaultKind.FILE_UNREADABLE: "could not be read",
}


@rule(
    "https://man7.org/linux/man-pages/man2/mmap.2.html",
    "https://github.com/NVIDIA/TensorRT-LLM/issues/17368",
)
def bus_error_file_truncated(crash: Crash) -> Findings:
    if crash.kind not in _KINDS or crash.fault is None or crash.fault.file is None:
        return
    file = crash.fault.file
    evidence = [crash.cited]
    if crash.kind is FaultKind.FILE_TRUNCATED:
        now = f"{file.size} bytes now; the access was at offset {file.offset}"
        evidence.append(Evidence(f"file {file.path}", now))
    evidence.extend(crash.frame())
    in_memory = file.path.startswith("/memfd:")
    steps = [
        "which process gives it its length (ftruncate), and before it is mapped?"
        if in_memory
        else f"ls -l {shell_word(file.path)} ; compare its size and checksum with the original",
        "make sure that nothing truncates or rewrites the file in place while it is mapped: write "
        "to a new name, then rename",
    ]
    if crash.kind is not FaultKind.FILE_TRUNCATED and not in_memory:
        host = "the host that crashed" if file.elsewhere else "this host"
        steps.append(f"dmesg -T on {host}: look for errors of the file system (nfs, lustre, I/O)")
    certain = crash.kind is FaultKind.FILE_TRUNCATED
    yield Finding(
        title=f"the mapped file {file_name(file.path)} {_KINDS[crash.kind]}",
        cause=crash.words,
        confidence=Confidence.LIKELY if certain else Confidence.POSSIBLE,
        next_steps=tuple(steps),
        evidence=tuple(evidence),
    )
