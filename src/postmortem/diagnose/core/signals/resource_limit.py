"""A limit that was set for the process was reached.

What it means
    The kernel ended the process because it used more processor time (SIGXCPU) or wrote a
    larger file (SIGXFSZ) than its limits permit.

How to be sure
    The signal is used for nothing else unless somebody sent it by hand. `ulimit -a` in the
    job's shell, or the scheduler's settings, show the limit.

What to do
    Raise the limit in the job's shell, systemd unit or scheduler.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule("https://man7.org/linux/man-pages/man2/setrlimit.2.html")
def resource_limit(crash: Crash) -> Findings:
    if crash.kind is not FaultKind.RESOURCE_LIMIT:
        return
    is_time = crash.signal.name == "SIGXCPU"
    what = "processor-time limit (ulimit -t)" if is_time else "file-size limit (ulimit -f)"
    yield Finding(
        title=f"the {what} was reached",
        cause=crash.words,
        confidence=Confidence.LIKELY,
        next_steps=(
            f"ulimit {'-t' if is_time else '-f'} in the job's shell shows the limit; raise it "
            "there, in the systemd unit, or in the scheduler's options",
        ),
        evidence=(crash.cited, *crash.frame()),
    )
