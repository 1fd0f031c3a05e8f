"""The core file is cut.

What it means
    The headers promise more bytes than the file has: the disk was full, a limit of size was
    reached (ulimit -c, ProcessSizeMax of systemd-coredump), the process was killed while it
    wrote, or the copy was not finished. The kernel writes the main stack and the last
    libraries' data last, so stacks and names may be missing.
How to be sure
    The sizes are compared exactly.
What to do
    Copy it again if it was copied; else free space and raise the limit before the next run.
"""

from postmortem.diagnose.core.memory_words import size_words
from postmortem.diagnose.core.stack_end import has_lost_stack
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Topic, rule
from postmortem.facts.process import CoreFile
from postmortem.facts.threads import Threads


@rule(
    "https://man7.org/linux/man-pages/man5/core.5.html",
    "https://man7.org/linux/man-pages/man5/coredump.conf.5.html",
    role=Role.CONTEXT,
    topic=Topic.EVIDENCE,
)
def truncated_core(core: CoreFile, threads: Threads) -> Findings:
    if not core.truncated:
        return
    share = 100 * core.size_bytes / core.expected_bytes if core.expected_bytes else 0
    lost = has_lost_stack(core, threads.crashed)
    before = " before the crashed thread's stack" if lost else ""
    yield Finding(
        title=f"the core file is cut{before}: {share:.0f} % of it is there",
        cause=f"the headers promise {size_words(core.expected_bytes)}, the file has "
        f"{size_words(core.size_bytes)}: a full disk, a limit of size, or a copy that did not end"
        + (_WITHOUT_STACK if lost else ""),
        confidence=Confidence.CERTAIN,
        next_steps=(
            "was it copied? compare sizes with the original and copy again",
            "ulimit -c unlimited; systemd-coredump: ProcessSizeMax and ExternalSizeMax in "
            "/etc/systemd/coredump.conf; df -h where cores are written",
        ),
        evidence=(
            Evidence(f"core {core.path}", f"{core.size_bytes} of {core.expected_bytes} bytes"),
        ),
    )


_WITHOUT_STACK = (
    ". Lost with the stack: who called what, Python's frames, what the C library or an exception "
    "said. Known still: the signal and its siginfo, each thread's registers and so the function "
    "that it was in, and which files were mapped where"
)
