"""What a card says first where the cause is plainer than the words of the error.

``RuntimeError: basic_ios::clear: iostream error`` is a checkpoint that could not be written.
"""

from postmortem.diagnose.ranks.phrases import known_match
from postmortem.facts.rank_logs import LogFailure
from postmortem.report.model import Diagnosis

_CHECKPOINTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".distcp", ".npz", ".tar")
REASONS = {
    "disk_full": "no space left in {folder}",
    "quota_exceeded": "the disk quota of {folder} is used up",
    "read_only_file_system": "{folder} is read-only",
    "input_output_error": "input/output error in {folder}",
    "stale_file_handle": "{folder} went away (stale file handle)",
    "file_too_large": "the file reached the largest size allowed",
}
"""Ids of rules to why a file could not be written."""
MEANINGS = {
    "ckpt-write-failed": "a checkpoint could not be written",
    "ckpt-unexpected-pos": "a checkpoint could not be written",
    "ckpt-iostream": "a checkpoint could not be written, usually because the disk is full",
    "ckpt-cannot-open": "a checkpoint could not be opened",
    "ckpt-central-dir": "a checkpoint is cut off",
    "st-incomplete": "a checkpoint is cut off",
    "st-headertoolarge": "a file is not a checkpoint",
    "enospc-log": "the disk is full",
    "semlock-enospc": "/dev/shm is full",
    **dict.fromkeys(("library-missing", "opengl-missing"), "a library is missing"),
    "cuda-library-missing": "a library of CUDA is missing",
    "gpu-driver-missing": "NVIDIA's driver is missing",
    "cpp-bad-alloc": "memory that it asked for could not be had",
    "dl-killed": "DataLoader worker {pid} was ended by a signal ({signal})",
    "dl-bus-error": "DataLoader worker {pid} was ended by SIGBUS: usually /dev/shm is full",
    "loss-nonfinite": "the loss is NaN or Inf",
}
"""Ids of known messages to what they mean, in words that need no manual; names are groups."""


def meaning_of(failure: LogFailure | None) -> str | None:
    """Return what the error of a rank means; None where its own words are plain enough."""
    match = known_match(failure)
    words = MEANINGS.get(match.id) if match is not None else None
    return words.format_map(match.captures) if words and match is not None else None


def not_written(best: Diagnosis) -> str | None:
    """Return ``checkpoint ckpt.pt not written: no space left in /scratch``, else None."""
    path = best.about.path if best.about is not None else None
    reason = REASONS.get(best.id)
    if path is None or reason is None or not path.endswith(_CHECKPOINTS):
        return None
    folder, _, name = path.rpartition("/")
    return f"checkpoint {name} not written: {reason.format(folder=folder or '/')}"
