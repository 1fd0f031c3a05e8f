"""What the monitor raises to end a training that is past saving."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from weakref import finalize

if TYPE_CHECKING:
    from postmortem.diagnose.numerics.first_bad import FirstBad
    from postmortem.monitor.watch import NumericsMonitor

P = ParamSpec("P")
R = TypeVar("R")


class NumericsError(ValueError):
    """NaN or Inf were found; the last frames have been printed."""

    def __init__(self, message: str, first_bad: FirstBad | None = None) -> None:
        super().__init__(message)
        self.first_bad = first_bad
        """What went bad first; None where a batch limit ended the run."""


def warn_if_unused(monitor: NumericsMonitor) -> finalize[..., Any]:
    """Return what says, when a monitor goes or Python ends, that it never watched; or is detached.

    Not sooner: for that its model would need a hook from somebody who may have wanted none.
    """
    code = sys._getframe(2)
    warn = logging.getLogger("postmortem.monitor").warning
    words = "%s of %s:%d watched nothing: it needs `with ... as monitor:`, or attach()"
    name = type(monitor).__name__
    return finalize(monitor, warn, words, name, code.f_code.co_filename, code.f_lineno)


NumericsError.__module__ = "postmortem"  # where it is imported from, and what a log says


def shortened(hook: Callable[P, R]) -> Callable[P, R]:
    """Return a hook whose NumericsError has no frames of this package but the hook's own."""

    @wraps(hook)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return hook(*args, **kwargs)
        except NumericsError as found:
            raise found.with_traceback(None) from None

    return call


def refuse(monitor: NumericsMonitor) -> None:
    """Raise NumericsError if a weight of the watched model holds NaN or Inf now."""
    bad = monitor.check_before_saving()
    if bad is not None:
        name = f"{bad.module}.{bad.cell}".lstrip(".")
        what = f"{bad.nan_count:,} NaN and {bad.inf_count:,} Inf of {bad.numel:,} values"
        raise NumericsError(f"no checkpoint is written: {name} holds {what}", bad)
