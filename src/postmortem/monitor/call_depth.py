"""Calls of a model that run at this moment: within each other, or in several threads.

A hook before a call learns nothing of calls that raised. So whether an earlier call has ended is
asked of the interpreter's stacks, and only where it has not come back.
"""

import sys
import threading
from types import FrameType

import torch

_CALL = torch.nn.Module._call_impl.__code__


class Calls:
    """The calls of one model that run; those within each other are one batch."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._running = False
        """Whether a call has begun and not come back: one that raised never does."""
        self._shared = False
        """Whether calls ran at once: the last to come back ends the batch."""

    def begin(self) -> int | None:
        """Return how many batches a call ends that begins: None if it is within another call.

        1 where the call before runs in another thread, or raised and whoever trains goes on.
        """
        if not self._running:
            self._running = True
            return 0
        here, elsewhere = _calls_running(self._model)
        self._shared = here > 1 or elsewhere > 0
        return None if here > 1 else 1

    def end(self) -> bool:
        """Return whether the call that comes back was the last one that ran."""
        if self._shared and sum(_calls_running(self._model)) > 1:
            return False
        self.forget()
        return True

    def forget(self) -> None:
        """Take all calls as ended."""
        self._running = self._shared = False


def _calls_running(model: torch.nn.Module) -> tuple[int, int]:
    """Return how many calls of a model, or a replica of it, run: in this thread, and in others."""
    here = threading.get_ident()
    counts = {True: 0, False: 0}
    for thread, top in sys._current_frames().items():
        counts[thread == here] += _calls(top, model)
    return counts[True], counts[False]


def _calls(top: FrameType | None, model: torch.nn.Module) -> int:
    count = 0
    while top is not None:
        if top.f_code is _CALL:
            # Replicas for several devices share the model's hooks.
            hooks = getattr(top.f_locals.get("self"), "_forward_pre_hooks", None)
            count += hooks is model._forward_pre_hooks
        top = top.f_back
    return count
