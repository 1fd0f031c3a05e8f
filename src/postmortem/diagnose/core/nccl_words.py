"""What the text of a process group's exception says, as far as one rank can know."""

import re

from postmortem.diagnose.names import clip
from postmortem.knowledge.lookup import load_table
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


def _by_result(text: str, details: str) -> NcclError:
    for row in load_table("nccl_results.toml")["result"]:
        if Wording(row["wording"]).search(text):
            cause = f"{row['words']}{details}"
            return NcclError(row["words"], cause, row["meaning"], row["step"])
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
