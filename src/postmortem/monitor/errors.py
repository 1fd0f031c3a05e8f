"""What the monitor raises to end a training that is past saving."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from postmortem.diagnose.numerics.first_bad import FirstBad
    from postmortem.monitor.watch import NumericsMonitor


class NumericsError(ValueError):
    """NaN or Inf were found; the last frames have been printed."""

    def __init__(self, message: str, first_bad: FirstBad | None = None) -> None:
        super().__init__(message)
        self.first_bad = first_bad
        """What went bad first; None where a batch limit ended the run."""


def refuse(monitor: NumericsMonitor) -> None:
    """Raise NumericsError if a weight of the watched model holds NaN or Inf now."""
    bad = monitor.check_before_saving()
    if bad is not None:
        name = f"{bad.module}.{bad.cell}".lstrip(".")
        what = f"{bad.nan_count:,} NaN and {bad.inf_count:,} Inf of {bad.numel:,} values"
        raise NumericsError(f"no checkpoint is written: {name} holds {what}", bad)
