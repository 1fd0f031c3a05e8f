"""Who wrote a core that the kernel did not write."""

from postmortem.facts.memory import Modules
from postmortem.facts.process import CoreFile


def saved_by(core: CoreFile, modules: Modules) -> str:
    """Return the name of the program that saved the core: ``"gcore"``, ``"createdump"``."""
    if core.origin == "gcore":
        return "gcore"
    # Its notes have no mark of its own; no other tool has a reason to write cores of .NET.
    is_dotnet = any(module.path.endswith("/libcoreclr.so") for module in modules)
    return "createdump" if is_dotnet else "a tool"
