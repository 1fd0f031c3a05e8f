"""What is set in the environment of a command so that a failure leaves evidence.

Whatever the user has set stays as it is. Nothing here makes a program say more than it would:
NCCL's warnings go to files, and TORCH_SHOW_CPP_STACKTRACES, which changes messages, is left to
`--sync` and `--cpu`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from postmortem.records import record

FOLDER = "POSTMORTEM_RUN"
"""Names the folder of the innermost `run` that a process is under."""
PTRACER = "POSTMORTEM_RUN_PTRACER"
NUMERICS = "POSTMORTEM_NUMERICS"
"""Names the folder for flight files; where it is set, models are watched without being asked."""
HOOK = Path(__file__).with_name("hook")

_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
# NVIDIA's cuda-gdb manual, "GPU core dump support"; 47: without global, shared, local and constant
# memory and images that are in files; 128: of faulted contexts alone; 16: the process is not
# aborted, so the program gets its error as it would.
_GPU_CORE_FLAGS = (
    "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,"
    "skip_constbank_memory,skip_abort"
)


@record
class Variables:
    """The variables that were set, and those that the user had set before."""

    added: Mapping[str, str]
    kept: tuple[str, ...] = ()


def evidence_variables(env: Mapping[str, str], folder: Path, supervisor: int) -> Variables:
    """Return what to add to an environment; of PYTHONPATH the whole new value."""
    wanted = {
        "NCCL_DEBUG": "WARN",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_FR_DUMP_TEMP_FILE": f"{folder}/flight/nccl_trace_rank_",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": f"{folder}/flight/nccl_trace_rank_",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        # Without it torchrun complains that it has no place to copy a worker's error file to.
        "TORCHELASTIC_ERROR_FILE": f"{folder}/error.json",
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1",
        "CUDA_COREDUMP_FILE": f"{folder}/gpu/core.%h.%p.nvcudmp",
        "CUDA_COREDUMP_GENERATION_FLAGS": _GPU_CORE_FLAGS,
    }
    # Warnings of NCCL go to a file, or nowhere: where the user chose the level, they want them.
    if "NCCL_DEBUG" not in env:
        wanted["NCCL_DEBUG_FILE"] = f"{folder}/nccl/nccl.%h.%p.log"
    # A GPU core without the flags would hold all memory of the GPU, and abort the program.
    if any(name.startswith(("CUDA_COREDUMP", "CUDA_ENABLE_")) for name in env):
        wanted = {name: value for name, value in wanted.items() if not name.startswith("CUDA_")}
    added = {name: value for name, value in wanted.items() if name not in env}
    added[FOLDER] = str(folder)
    added["PYTHONPATH"] = with_hook(env.get("PYTHONPATH"))
    if os.geteuid() != 0 and _only_ancestors_may_read():
        added[PTRACER] = str(supervisor)
    return Variables(added, tuple(name for name in wanted if name in env))


def with_hook(path: str | None) -> str:
    """Return PYTHONPATH with the hook first, and once."""
    rest = [part for part in (path or "").split(":") if part != str(HOOK)]
    return ":".join([str(HOOK), *rest]) if path else str(HOOK)


def without_ours(env: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what `evidence_variables` added, for a rerun by hand."""
    left = {name: value for name, value in env.items() if added.get(name) != value}
    rest = [part for part in env.get("PYTHONPATH", "").split(":") if part != str(HOOK)]
    if any(rest):
        left["PYTHONPATH"] = ":".join(rest)
    return left


def _only_ancestors_may_read() -> bool:
    try:
        return _YAMA.read_text().strip() == "1"
    except OSError:
        return False
