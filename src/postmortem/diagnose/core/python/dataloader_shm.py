"""A DataLoader ran out of shared memory.

What it means
    DataLoader workers hand batches to the main process through files in /dev/shm. The file
    gets its length at once, but its memory only as it is written; when /dev/shm (64 MB in a
    container by default) is full, the write is answered with SIGBUS.
How to be sure
    The fault address lies in a segment /dev/shm/torch_… and Python stands in a DataLoader; or the
    worker's own SIGBUS handler is on the stack, which printed "Unexpected bus error encountered
    in worker". How full /dev/shm was at that moment is not in the core. Elsewhere the segment may
    as well have been made shorter.
What to do
    Give /dev/shm more (docker --shm-size, ipc=host, a Memory emptyDir in Kubernetes), or use
    less: fewer workers, smaller prefetch_factor, smaller batches. Remove torch_* files of dead
    processes.
"""

from postmortem.diagnose.core.citing import cite_frame
from postmortem.diagnose.core.crash import Crash
from postmortem.diagnose.core.fault_kind import FaultKind
from postmortem.diagnose.core.memory_words import size_words
from postmortem.diagnose.core.shared_memory import is_read, is_torch_segment
from postmortem.diagnose.core.stacks import has_python
from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.crash import Signal
from postmortem.facts.threads import Thread, Threads


@rule(
    "https://github.com/pytorch/pytorch/issues/5040",
    "https://pytorch.org/docs/stable/multiprocessing.html#sharing-strategies",
    "https://docs.docker.com/reference/cli/docker/container/run/#shm-size",
)
def dataloader_shm(crash: Crash) -> Findings:
    file = crash.fault.file if crash.fault is not None else None
    crashed = crash.crashed
    in_segment = file is not None and is_torch_segment(file.path)
    in_segment = in_segment and crash.kind in (FaultKind.NO_SPACE, FaultKind.FILE_TRUNCATED)
    in_segment = in_segment and not (crash.fault is not None and is_read(crash.fault))
    handler = _worker_handler(crash.signal, crashed)
    if not in_segment and handler is None:
        return
    evidence = [crash.cited]
    if handler is not None:
        evidence.append(cite_frame(crashed, handler))
    index = crashed.handler_index
    evidence += crash.frame(0 if index is None else index + 1)
    size = ""
    if file is not None and file.filesystem_size:
        size = f" (its size now: {size_words(file.filesystem_size)})"
        evidence.append(Evidence("file system of /dev/shm", size.strip(" ()")))
    cause = (
        crash.words
        if in_segment
        else "the DataLoader worker's own handler caught SIGBUS and raised it again"
    )
    elsewhere = has_python(crash.threads) and not _in_dataloader(crash.threads)
    yield Finding(
        title="PyTorch's shared memory in /dev/shm ran out, or was made shorter"
        if elsewhere and in_segment
        else "a DataLoader ran out of shared memory in /dev/shm",
        cause=f"{cause}. Tensors pass between processes through /dev/shm{size}, and it had no page "
        "left to give",
        confidence=Confidence.LIKELY if in_segment and not elsewhere else Confidence.POSSIBLE,
        next_steps=(
            "df -h /dev/shm while the job runs; ls -l /dev/shm for torch_* files of dead processes",
            "give it more: docker run --shm-size=16g (or --ipc=host); in Kubernetes an emptyDir "
            "with medium Memory on /dev/shm",
            "or need less: fewer num_workers, smaller prefetch_factor or batches",
        ),
        evidence=tuple(evidence),
    )


def _in_dataloader(threads: Threads) -> bool:
    """Return whether a line of Python stands in DataLoader: a worker's, or that of who reads it."""
    return any(
        frame.kind == "python" and "/torch/utils/data/" in (frame.file or "")
        for thread in threads
        for frame in thread.frames
    )


def _worker_handler(signal: Signal, thread: Thread) -> int | None:
    """Return the index of the frame of PyTorch's SIGBUS handler for DataLoader workers.

    torch/csrc/DataLoader.cpp installs `handler_SIGBUS`, which prints, restores the default action
    and raises the signal again: siginfo then no longer has the address.
    """
    if signal.name != "SIGBUS":
        return None
    return thread.index_of(r"\bhandler_SIGBUS\b", within=12)
