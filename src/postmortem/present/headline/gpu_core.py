"""What a core dump of GPUs says first."""

from postmortem.facts.gpu_core import GpuCore
from postmortem.text import counted


def headline(core: GpuCore, found: str | None) -> str:
    """Return what was found, else what stood on the GPUs."""
    if found is not None:
        return found
    if core.vendor == "AMD" and core.devices:
        return "the state of {}: what their waves did is not read here".format(
            counted(len(core.devices), "AMD GPU")
        )
    if not core.devices:
        return "the dump names no GPU"
    return f"no kernel was running on {counted(len(core.devices), 'GPU')} when the dump was written"
