"""Explains dead training jobs from what they left behind.

The command line is the main way in: ``postmortem core CORE``. Names of the Python API are
resolved on first use, so that importing the package from training code costs nothing.
"""

from postmortem._version import __version__

TYPE_CHECKING = False  # type checkers know the name; to import typing would take 10 ms
if TYPE_CHECKING:
    from postmortem.breakpoints import breakpoint_on_rank, printflock
    from postmortem.monitor import (
        DebugUnderflowOverflow,
        NumericsError,
        NumericsMonitor,
        detect_overflow,
    )
    from postmortem.readers.strace_table import SyscallTable, read_strace
    from postmortem.scan import ScanResult, fastscan

__all__ = [
    "DebugUnderflowOverflow", "NumericsError", "NumericsMonitor", "ScanResult", "SyscallTable",
    "__version__", "breakpoint_on_rank", "detect_overflow", "fastscan", "printflock", "read_strace",
]  # fmt: skip

_HOMES = {
    "DebugUnderflowOverflow": "postmortem.monitor",
    "NumericsError": "postmortem.monitor",
    "NumericsMonitor": "postmortem.monitor",
    "ScanResult": "postmortem.scan",
    "SyscallTable": "postmortem.readers.strace_table",
    "breakpoint_on_rank": "postmortem.breakpoints",
    "detect_overflow": "postmortem.monitor",
    "fastscan": "postmortem.scan",
    "load_ipython_extension": "postmortem.integrations.notebook",
    "printflock": "postmortem.breakpoints",
    "read_strace": "postmortem.readers.strace_table",
}


def __getattr__(name: str) -> object:
    """Return a name of the API, importing its module the first time."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the names of the API alone."""
    return sorted(__all__)
