"""What the text of a process group's exception says, as far as one rank can know."""

from postmortem.diagnose.names import clip
from postmortem.facts.crash import CppException
from postmortem.facts.signature import Match
from postmortem.knowledge.lookup import load_table
from postmortem.records import record


@record
class NcclError:
    """One error of a process group, in words."""

    words: str = ""
    """For a title: ``"NCCL unhandled system error"``."""
    cause: str = "an asynchronous error of NCCL, or a time-out"
    """For a sentence: what was caught."""
    meaning: str = ""
    step: str = ""


def parse(said: CppException) -> NcclError:
    """Return what an exception says; one without a text gives the general words.

    Wordings of ProcessGroupNCCL.cpp (torch 1.11 to 2.13) and of `ncclGetErrorString` in NCCL's
    src/init.cc.
    """
    if not (said.what or "").strip():
        return NcclError()
    details = _details(said)
    cuda = said.match("gpu-error")
    if cuda is not None and said.match("nccl-cuda-failure") is None:
        words = clip(cuda["words"], 60)
        return NcclError(
            f"CUDA error, {clip(words, 30)}",
            f'a CUDA error ("{words}"){details}',
            "NCCL is not its cause: the watchdog was only the first to ask the GPU after a kernel "
            "of this rank had failed",
            "treat it as a CUDA fault of this rank: run with CUDA_LAUNCH_BLOCKING=1 or under "
            "compute-sanitizer, and look for Xid lines in dmesg",
        )
    timeout = said.match("pgnccl-work-ran")
    if timeout is not None or said.match("pgnccl-timed-out"):
        return _timed_out(timeout, details)
    return _by_result(said, details)


def _timed_out(found: Match | None, details: str) -> NcclError:
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


def _by_result(said: CppException, details: str) -> NcclError:
    for row in load_table("nccl_results.toml")["result"]:
        if said.match(row["wording"]):
            cause = f"{row['words']}{details}"
            return NcclError(row["words"], cause, row["meaning"], row["step"])
    return NcclError("", f'the error "{clip(said.what or "", 200)}"')


def _details(said: CppException) -> str:
    """Return sequence number, version and NCCL's own last words, where the text has them."""
    parts = []
    sequence = said.match("collective-sequence")
    if sequence is not None and said.match("pgnccl-work") is None:
        parts.append(f"sequence {sequence['seq']}")
    version = said.match("nccl-version")
    if version is not None:
        parts.append(f"NCCL {version['version']}")
    last = said.match("nccl-last-error")
    if last is not None:
        parts.append(f"its last words: {clip(last['text'], 160)}")
    return f" ({', '.join(parts)})" if parts else ""
