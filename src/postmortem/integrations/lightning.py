"""A callback for Lightning's Trainer.

from postmortem.integrations.lightning import NumericsCallback
trainer = Trainer(callbacks=[NumericsCallback()])
"""

from typing import Any

from lightning.pytorch import Callback

from postmortem.monitor.errors import refuse
from postmortem.monitor.watch import NumericsMonitor


class NumericsCallback(Callback):  # type: ignore[misc]
    """Watches the module for as long as `Trainer.fit` runs; takes NumericsMonitor's arguments.

    A checkpoint that would hold NaN or Inf is refused before it is written.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.monitor: NumericsMonitor | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach to the module."""
        self.monitor = NumericsMonitor(pl_module, **self._options).attach()

    def on_sanity_check_end(self, trainer: Any, pl_module: Any) -> None:
        """Count the batches of the training alone, not those that were tried before it."""
        if self.monitor is not None:
            self.monitor.count_anew()

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count a batch where `training_step` calls only parts of the module."""
        if self.monitor is not None:
            self.monitor.begin_batch()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Raise before Lightning saves what is bad."""
        if self.monitor is not None:
            refuse(self.monitor)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Detach from the module."""
        if self.monitor is not None:
            self.monitor.detach()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Take the hooks away, and leave the flight file saying how it ended."""
        if self.monitor is not None:
            self.monitor.__exit__(type(exception), exception, None)
