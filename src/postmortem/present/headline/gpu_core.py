"""What a core dump of GPUs says first."""

from postmortem.facts.gpu_core import GpuCore
from postmortem.text import counted


def headline(core: GpuCore, found: str | None) -> str:
    """Return what was found, else what stood on the GPUs."""
    if found is not None:
        return found
    if core.vendor == "AMD" and core.devices:
        whose = "its" if len(core.devices) == 1 else "their"
        gpus = counted(len(core.devices), "AMD GPU")
        return f"the state of {gpus}: what {whose} waves did is not read here"
    if not core.devices:
        return "the dump names no GPU"
    return f"no kernel was running on {counted(len(core.devices), 'GPU')} when the dump was written"
