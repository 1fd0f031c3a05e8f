"""GradScalers whose scale finds no fit: what is said when batch after batch is discarded.

A scaler halves its scale for each step that it skips. A few times in a row are its search; a
scale below 1 means that gradients overflow without any scaling, which no scale can mend
(https://docs.pytorch.org/docs/stable/notes/amp_examples.html).
"""

import gc
import logging
from typing import Any
from weakref import ReferenceType, ref

import torch

log = logging.getLogger("postmortem.monitor")
_IN_A_ROW = 5


class LossScale:
    """Looks at the scalers of this process whenever a batch's gradients were discarded."""

    def __init__(self) -> None:
        self._scalers: list[ReferenceType[Any]] | None = None
        self._last: dict[int, float] = {}
        self._below = False

    def discarded(self, batch: int, streak: int, *, nan: bool) -> None:
        """Warn of a scale that fell below 1, or step after step; `streak` counts from 1."""
        fallen = self._fallen()
        if fallen is None:
            return
        if fallen >= 1:
            self._below = False
        elif not self._below:
            self._below = True
            log.warning(
                "batch %d: the scale of GradScaler fell to %.3g, below 1: the gradients "
                "overflow without any scaling; %s",
                batch,
                fallen,
                _WITH_NAN if nan else _WITHOUT_NAN,
            )
        if streak == _IN_A_ROW and fallen >= 1:
            log.warning(
                "batch %d: GradScaler lowered its scale in %d batches in a row, to %s%s",
                batch,
                streak,
                f"{fallen:,.0f}" if fallen < 1e9 else f"{fallen:.3g}",
                f"; {_WITH_NAN}" if nan else "",
            )

    def _fallen(self) -> float | None:
        """Return the least scale that fell since the last look; others are other models'."""
        if self._scalers is None:
            self._scalers = [ref(one) for one in gc.get_objects() if _is_scaler(one)]
        fallen = []
        for one in self._scalers:
            scaler = one()
            if scaler is None or not scaler.is_enabled() or scaler._scale is None:
                continue
            try:
                scale = float(scaler.get_scale())
            except RuntimeError:  # not while a graph is captured
                return None
            if scale < self._last.get(id(scaler), scale):
                fallen.append(scale)
            self._last[id(scaler)] = scale
        return min(fallen, default=None)


_WITH_NAN = "they hold NaN and no Inf, which a lower scale hardly mends: look for what makes it"
_WITHOUT_NAN = "lower the loss or the learning rate, or train in bfloat16"


def _is_scaler(one: object) -> bool:
    return issubclass(type(one), torch.amp.GradScaler)
