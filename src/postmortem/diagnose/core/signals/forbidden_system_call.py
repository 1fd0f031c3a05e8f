"""A sandbox forbade a system call.

What it means
    The process runs under a seccomp filter (a container's profile, systemd's SystemCallFilter,
    a sandbox) whose answer to this system call is to kill.
How to be sure
    The signal is SIGSYS. The call's number is in the kernel's audit log (type=SECCOMP).
What to do
    Permit the call in the profile, or try once with seccomp=unconfined to confirm.
"""

from postmortem.diagnose.core.citing import cite_frame
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.stacks import place
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule


@rule("https://man7.org/linux/man-pages/man2/seccomp.2.html")
def forbidden_system_call(crash: Crash) -> Findings:
    if crash.kind is not FaultKind.SECCOMP:
        return
    crashed = crash.crashed
    from postmortem.knowledge.syscalls import numbering, system_call  # few reports need them

    what, call = "a system call", crash.signal.system_call
    if call is not None:
        numbers = numbering(crash.process.machine, crash.signal.call_machine)
        called = system_call(call, numbers)
        what = f"the system call {called or f'{call} ({numbers} numbering)'}"
    who = "a seccomp filter"
    if crash.signal.code == "SYS_USER_DISPATCH":
        who = "the process's own system-call dispatch (prctl)"
    evidence = [Evidence("signal SIGSYS", crash.words)]
    number = crashed.register("orig_rax")
    if crashed.frames:
        evidence.append(cite_frame(crashed, 0))
    if number is not None and number < 1 << 16:
        evidence.append(Evidence("register orig_rax", f"system call number {number}"))
    yield Finding(
        title=f"{who} forbade {what}{place(crashed)}",
        cause=crash.words,
        confidence=Confidence.CERTAIN if crash.signal.code == "SYS_SECCOMP" else Confidence.LIKELY,
        next_steps=(
            "dmesg -T | grep -i seccomp (or ausearch -m SECCOMP) names the call by its number",
            "as a test: docker run --security-opt seccomp=unconfined …",
        ),
        evidence=tuple(evidence),
    )
