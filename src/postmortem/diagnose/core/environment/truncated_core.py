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
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, Topic, rule
from postmortem.facts.process import CoreFile


@rule(
    "https://man7.org/linux/man-pages/man5/core.5.html",
    "https://man7.org/linux/man-pages/man5/coredump.conf.5.html",
    role=Role.CONTEXT,
    topic=Topic.EVIDENCE,
)
def truncated_core(core: CoreFile) -> Findings:
    if not core.truncated:
        return
    share = 100 * core.size_bytes / core.expected_bytes if core.expected_bytes else 0
    yield Finding(
        title=f"the core file is cut: {share:.0f} % of it is there",
        cause=f"the headers promise {size_words(core.expected_bytes)}, the file has "
        f"{size_words(core.size_bytes)}: a full disk, a limit of size, or a copy that did not end",
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
