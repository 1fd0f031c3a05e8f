"""The memory hardware failed.

What it means
    The machine found an error in memory that it could not correct and took the page away; the
    kernel killed the process that used it. The program is not at fault.

How to be sure
    The signal's code is BUS_MCEERR_AR or BUS_MCEERR_AO, which the kernel sends for nothing
    else. The machine's log (mcelog, rasdaemon, dmesg) names the module.

What to do
    Take the host out of service and have its memory tested or replaced; run the job elsewhere.
"""

from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule


@rule(
    "https://docs.kernel.org/mm/hwpoison.html",
    "https://man7.org/linux/man-pages/man2/sigaction.2.html",
)
def hardware_memory_error(crash: Crash) -> Findings:
    if crash.kind is not FaultKind.HARDWARE_MEMORY:
        return
    host = crash.process.hostname
    where = f" of host {host}" if host else ""
    yield Finding(
        title=f"uncorrectable memory error in the hardware{where}"[:100],
        cause=crash.words + ". The program is not the cause",
        confidence=Confidence.CERTAIN,
        next_steps=(
            f"take host {host or 'this machine'} out of the job and run again elsewhere",
            "dmesg -T | grep -i -e 'hardware error' -e mce ; ras-mc-ctl --errors names the module",
        ),
        evidence=(crash.cited,),
    )
