"""The limit of open files was reached.

What it means
    A call that makes a descriptor gave EMFILE (the process has as many as its RLIMIT_NOFILE
    allows) or ENFILE (the whole system has). The path of the failed call is not to blame: it
    is only the one that came too late.
How to be sure
    Look at what the process held open: ls -l /proc/PID/fd, or the log's opens without a close.
What to do
    Raise the limit (ulimit -n) or close what is leaked. PyTorch's default of sharing tensors
    by descriptors holds one for each tensor: use the sharing strategy file_system.
"""

from collections.abc import Sequence

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import kernel_table, named, shortened, who
from postmortem.diagnose.strace.resource_limits import limit
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures


@rule(
    "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
    "https://github.com/pytorch/pytorch/issues/973",
)
def too_many_open_files(failures: Failures, logs: Logs) -> Findings:
    groups = worst(
        logs, tuple(g for g in failures.of("EMFILE", "ENFILE") if kernel_table(g) is None)
    )
    if not groups:
        return
    group = groups[0]
    whole = group.errno == "ENFILE"
    count = sum(len(one.matches) for one in groups)
    whose = "the system" if whole else who(group.first.pid)
    of_what = f" of {named(group.target, 40)}" if group.target.path else ""
    known = None if whole else limit(logs, "RLIMIT_NOFILE", group.first)
    of = f" (the limit is {known.value:,})" if known is not None and known.value else ""
    held = next((m.holders for one in groups for m in one.matches if m.holders), ())
    most = f"; open most often: {_words(held)}" if held else ""
    tensors = any("/torch_" in path for path, _ in held)
    yield of_calls(
        logs,
        groups[:1],
        Confidence.CERTAIN,
        title=f"{whose} has too many open files: {group.first.syscall}{of_what} failed",
        cause=f"{group.errno} came {'once' if count == 1 else f'{count:,} times'}{of}{most}; the "
        f"paths of the calls that failed are not at fault",
        lasting=True,
        next_steps=(
            "cat /proc/sys/fs/file-nr ; sysctl fs.file-max"
            if whole
            else "ulimit -n ; ulimit -n 65536",
            "in PyTorch: torch.multiprocessing.set_sharing_strategy('file_system')"
            if tensors or not held
            else f"close what is open so often: {shortened(held[0][0], 60)}",
        ),
        evidence=(known.evidence,) if known is not None and known.value else (),
    )


def _words(held: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{shortened(path, 60)} {count:,} times" for path, count in held[:4])
