"""The version, read by the build and by the package without importlib.metadata (39 ms a start)."""

__version__ = "0.1.0"
