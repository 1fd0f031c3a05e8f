"""Explains dead training jobs from what they left behind.

The command line is the main way in: ``postmortem core CORE``. Names of the Python API are
resolved on first use, so that importing the package from training code costs nothing.
"""

from postmortem._version import __version__

__all__ = ["__version__"]
