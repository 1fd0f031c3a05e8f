"""Explains dead training jobs from what they left behind.

The command line is the main way in: ``postmortem core CORE``. Names of the Python API are
resolved on first use, so that importing the package from training code costs nothing.
"""

from typing import TYPE_CHECKING, Any

from postmortem._version import __version__

if TYPE_CHECKING:
    from postmortem.scan import ScanResult, fastscan

__all__ = ["ScanResult", "__version__", "fastscan"]

_HOMES = {"fastscan": "postmortem.scan", "ScanResult": "postmortem.scan"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
