"""What the monitor raises to end a training that is past saving."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from postmortem.diagnose.numerics.first_bad import FirstBad


class NumericsError(ValueError):
    """NaN or Inf were found; the last frames have been printed."""

    def __init__(self, message: str, first_bad: FirstBad | None = None) -> None:
        super().__init__(message)
        self.first_bad = first_bad
        """What went bad first; None where a batch limit ended the run."""
