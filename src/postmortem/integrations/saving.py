"""No checkpoint is written of weights that hold NaN or Inf."""

from postmortem.monitor.errors import NumericsError
from postmortem.monitor.watch import NumericsMonitor


def refuse(monitor: NumericsMonitor) -> None:
    """Raise NumericsError if a weight of the watched model holds NaN or Inf now."""
    bad = monitor.check_before_saving()
    if bad is not None:
        name = f"{bad.module}.{bad.cell}".lstrip(".")
        what = f"{bad.nan_count:,} NaN and {bad.inf_count:,} Inf of {bad.numel:,} values"
        raise NumericsError(f"no checkpoint is written: {name} holds {what}", bad)
