"""What the text of a process group's exception says, as far as one rank can know."""

import re

from postmortem.diagnose.names import clip
from postmortem.knowledge.messages import Wording
from postmortem.records import record

_TIMEOUT = Wording("pgnccl-work-ran")
_TIMED_OUT = Wording("pgnccl-timed-out")
_VERSION = Wording("nccl-version")
_LAST = Wording("nccl-last-error")
_CUDA = Wording("gpu-error")
_CUDA_FAILURE = Wording("nccl-cuda-failure")
_SEQUENCE = Wording("collective-sequence")
_WORK = Wording("pgnccl-work")


@record
class NcclError:
    """One error of a process group, in words."""

    words: str = ""
    """For a title: ``"NCCL unhandled system error"``."""
    cause: str = "an asynchronous error of NCCL, or a time-out"
    """For a sentence: what was caught."""
    meaning: str = ""
    step: str = ""


def parse(text: str) -> NcclError:
    """Return what the text of an exception says; an empty text gives the general words.

    Wordings of ProcessGroupNCCL.cpp (torch 1.11 to 2.13) and of `ncclGetErrorString` in NCCL's
    src/init.cc.
    """
    if not text.strip():
        return NcclError()
    details = _details(text)
    cuda = _CUDA.search(text)
    if cuda is not None and _CUDA_FAILURE.search(text) is None:
        words = clip(cuda["words"], 60)
        return NcclError(
            f"CUDA error, {clip(words, 30)}",
            f'a CUDA error ("{words}"){details}',
            "NCCL is not its cause: the watchdog was only the first to ask the GPU after a kernel "
            "of this rank had failed",
            "treat it as a CUDA fault of this rank: run with CUDA_LAUNCH_BLOCKING=1 or under "
            "compute-sanitizer, and look for Xid lines in dmesg",
        )
    timeout = _TIMEOUT.search(text)
    if timeout is not None or _TIMED_OUT.search(text):
        return _timed_out(timeout, details)
    return _by_result(text, details)


def _timed_out(found: re.Match[str] | None, details: str) -> NcclError:
    meaning = (
        "A time-out is seen by the ranks that waited: this one may be a victim of a rank that "
        "failed, hung or took another path, or may itself have issued a different collective. One "
        "core cannot decide that"
    )
    if found is None:
        return NcclError(
            "a collective timed out",
            f"the time-out of a collective{details}",
            meaning,
            "find the rank that does not report this time-out, or reports another collective",
        )
    seconds = int(found["ms"]) // 1000
    return NcclError(
        f"{clip(found['op'], 24)} timed out",
        f"the time-out of {found['op']} (sequence number {found['seq']}) after {seconds} s"
        f"{details}",
        meaning,
        f"compare with the other ranks: who is not at {found['op']} with sequence number "
        f"{found['seq']}? (TORCH_NCCL_TRACE_BUFFER_SIZE=2000 records it next time)",
    )


# In order: the remote error's words also contain "network error", which others do not.
_RESULTS: tuple[tuple[Wording, str, str, str], ...] = (
    (
        Wording("nccl-result-remote"),
        "another process or the network went away",
        "This rank is a victim: its peer died or could not be reached any more",
        "find the peer: the NCCL WARN line before this one names its address; read that rank's log",
    ),
    (
        Wording("nccl-result-system"),
        "NCCL unhandled system error",
        "A system call failed inside NCCL: sockets, InfiniBand verbs, shared memory or a driver "
        "call. Only an NCCL WARN line has the words for it",
        "check the network of this host first: link state of InfiniBand, RoCE or OPA, the chosen "
        "interface (NCCL_SOCKET_IFNAME), and df -h /dev/shm",
    ),
    (
        Wording("nccl-result-cuda"),
        "NCCL unhandled CUDA error",
        "A CUDA call failed inside NCCL: an earlier fault of a kernel of this rank, no GPU memory "
        "left, or GPUs that cannot reach each other",
        "dmesg for Xid lines; nvidia-smi for memory; run with NCCL_DEBUG=WARN for the CUDA call",
    ),
    (
        Wording("nccl-result-usage"),
        "NCCL invalid usage",
        "NCCL was called wrongly: two ranks on one GPU, or calls that do not match between ranks",
        "check that each rank calls torch.cuda.set_device(LOCAL_RANK) before its first collective",
    ),
    (
        Wording("nccl-result-argument"),
        "NCCL invalid argument",
        "NCCL refused an argument of a collective",
        "check sizes and types of the tensors of that collective on all ranks",
    ),
    (
        Wording("nccl-result-internal"),
        "NCCL internal error",
        "NCCL met something that it did not expect: mixed versions, a damaged topology, or memory "
        "trouble",
        "compare torch.cuda.nccl.version() of all ranks; run with NCCL_DEBUG=INFO",
    ),
    (
        Wording("nccl-aborted"),
        "the communicator had been aborted",
        "Something aborted NCCL's communicator before; this is what follows",
        "find the first error before this one, on this rank and on the others",
    ),
)


def _by_result(text: str, details: str) -> NcclError:
    for wording, words, meaning, step in _RESULTS:
        if wording.search(text):
            return NcclError(words, f"{words}{details}", meaning, step)
    return NcclError("", f'the error "{clip(text, 200)}"')


def _details(text: str) -> str:
    """Return sequence number, version and NCCL's own last words, where the text has them."""
    parts = []
    sequence = _SEQUENCE.search(text)
    if sequence is not None and _WORK.search(text) is None:
        parts.append(f"sequence {sequence['seq']}")
    version = _VERSION.search(text)
    if version is not None:
        parts.append(f"NCCL {version['version']}")
    last = _LAST.search(text)
    if last is not None:
        parts.append(f"its last words: {clip(last['text'], 160)}")
    return f" ({', '.join(parts)})" if parts else ""
