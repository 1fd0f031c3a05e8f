"""Watches the numbers of a model while it trains: which module, batch and rank went bad first.

Names are resolved on first use: the command that reads a flight file needs no PyTorch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from postmortem.monitor.detect import detect_overflow
    from postmortem.monitor.drop_in import DebugUnderflowOverflow
    from postmortem.monitor.errors import NumericsError
    from postmortem.monitor.watch import NumericsMonitor

__all__ = ["DebugUnderflowOverflow", "NumericsError", "NumericsMonitor", "detect_overflow"]

_HOMES = {
    "DebugUnderflowOverflow": "postmortem.monitor.drop_in",
    "NumericsError": "postmortem.monitor.errors",
    "NumericsMonitor": "postmortem.monitor.watch",
    "detect_overflow": "postmortem.monitor.detect",
}


def __getattr__(name: str) -> Any:
    """Return a name of the package, importing its module the first time."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
