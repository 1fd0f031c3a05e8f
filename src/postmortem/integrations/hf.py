"""A callback for the Trainer of Hugging Face transformers.

from postmortem.integrations.hf import NumericsCallback
trainer = Trainer(model, args, train_dataset=..., callbacks=[NumericsCallback()])
"""

from typing import Any

from transformers import TrainerCallback

from postmortem.monitor.errors import refuse
from postmortem.monitor.watch import NumericsMonitor


class NumericsCallback(TrainerCallback):  # type: ignore[misc]
    """Watches the model for as long as `Trainer.train` runs; takes NumericsMonitor's arguments.

    A checkpoint that would hold NaN or Inf is refused before it is written: the trainer rotates
    good ones away for it.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.monitor: NumericsMonitor | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Attach to the model."""
        if self.monitor is not None:  # of a run that raised: nobody is told then
            self.monitor.detach()
        self.monitor = NumericsMonitor(kwargs["model"], **self._options).attach()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Raise before the trainer saves what is bad."""
        if self.monitor is not None and control.should_save:
            refuse(self.monitor)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Raise before the trainer saves what is bad."""
        if self.monitor is not None and control.should_save:
            refuse(self.monitor)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Detach from the model."""
        if self.monitor is not None:
            self.monitor.detach()
