"""`DebugUnderflowOverflow` under its old name and with its old arguments."""

from collections.abc import Collection
from typing import Any

import torch

from postmortem.diagnose.numerics.first_bad import FirstBad
from postmortem.monitor.watch import NumericsMonitor


class DebugUnderflowOverflow(NumericsMonitor):
    """The monitor with the arguments, output and errors of transformers' class of this name.

    Changing the import is the whole migration. It watches from the moment it is made; gradients are
    left alone, as there.
    """

    _abort_argument = "abort_after_batch_num"

    def __init__(
        self,
        model: torch.nn.Module,
        max_frames_to_save: int = 21,
        trace_batch_nums: Collection[int] | None = None,
        abort_after_batch_num: int | None = None,
        **more: Any,
    ) -> None:
        super().__init__(
            model,
            max_frames=max_frames_to_save,
            trace_batches=trace_batch_nums or (),
            abort_after_batch=abort_after_batch_num,
            **({"gradients": False} | more),
        )
        self.attach()

    @property
    def batch_number(self) -> int:
        """The number of batches that are over."""
        return self.batch

    @property
    def detected_overflow(self) -> bool:
        """Whether NaN or Inf were seen."""
        return self.first_bad is not None

    def _message(self, found: FirstBad) -> str:
        return (
            "DebugUnderflowOverflow: inf/nan detected, aborting as there is no point running "
            "further. Please scroll up above this traceback to see the activation values prior to "
            f"this event. {self._verdict.said(found)}"
        )
