"""/dev/shm was full.

What it means
    A file in /dev/shm could not grow. PyTorch hands batches from DataLoader workers to the
    trainer in such files (torch_…), Python's locks are there too (sem.…), and containers get
    64 MiB unless told otherwise. Older PyTorch dies by SIGBUS instead of an error.

How to be sure
    df -h /dev/shm while the job runs.

What to do
    Give the container more (docker run --shm-size, a Memory-backed emptyDir in Kubernetes), use
    fewer workers or smaller batches, or set torch.multiprocessing's sharing strategy to
    file_system.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import in_shared_memory, many, named, times
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import FailedCalls, Failures


@rule(
    "https://docs.docker.com/engine/containers/run/",
    "https://github.com/pytorch/pytorch/issues/1355",
)
def shared_memory_full(failures: Failures, logs: Logs) -> Findings:
    full = tuple(g for g in failures.of("ENOSPC") if in_shared_memory(g.target))
    groups = tuple(sorted(worst(logs, full), key=lambda g: not _known(g)))
    if not groups:
        return
    group = groups[0]
    semaphore = any("/sem." in (g.target.path or "") for g in groups)
    loader = any("/torch_" in (g.target.path or "") for g in groups)
    whose = "; PyTorch's DataLoader workers hand over batches there" if loader else ""
    if semaphore and not whose:
        whose = "; locks of processes (sem_open, multiprocessing.Lock and Queue) lie there"
    yield of_calls(
        logs,
        groups[:2],
        Confidence.CERTAIN,
        title=f"/dev/shm is too small: no space for {named(group.target, 40)}{many(groups[1:])}",
        cause=(f"{times(logs, group)} on {group.target.words} failed with ENOSPC{whose}"),
        lasting=True,
        next_steps=(
            "df -h /dev/shm",
            "give it more: docker run --shm-size=8g, or --ipc=host",
            "or fewer workers: DataLoader(num_workers=…), smaller batches",
        ),
    )


def _known(group: FailedCalls) -> bool:
    """Return whether a file is one that PyTorch or the C library makes there."""
    return "/torch_" in (group.target.path or "") or "/sem." in (group.target.path or "")
