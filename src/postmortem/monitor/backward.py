"""Gradients when they are accumulated, and the steps of optimizers that use them.

A bad gradient is no failure by itself: GradScaler looks for a scale that fits and drops such a
step, and others do likewise. It becomes one when an optimizer is about to apply it. So hooks look
at gradients, and the hook before `Optimizer.step` judges those that are still bad.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch.optim import optimizer as optimizers

from postmortem.diagnose.numerics.first_bad import FirstBad, before_sum, first_bad, is_bad
from postmortem.facts.frames import Cell, CellKind, Frame, Phase
from postmortem.monitor.errors import shortened
from postmortem.monitor.loss_scale import LossScale
from postmortem.monitor.output_grads import Entering
from postmortem.monitor.recorder import Recorder
from postmortem.monitor.walk import Leaf, tensors_in
from postmortem.monitor.weights import Weights
from postmortem.records import replace
from postmortem.text import counted

log = logging.getLogger("postmortem.monitor")
_MOST_APPLIED = 2
"""So many steps later the numbers of gradients are waited for."""
_NO_FORWARD = (
    "no forward pass was recorded, as where torch.compile left out the hooks: what this gradient "
    "was made of may have been bad already"
)
_STREAK = 10
"""So many discarded batches in a row are no search for a scale any more."""


class _Seen(NamedTuple):
    """The frame of a gradient, and of the one that came before it."""

    frame: Frame
    last: Frame | None


class _Applied(NamedTuple):
    """Gradients that a step took while their numbers were on their way."""

    numbers: list[Any]
    """Of the gradients as the step took them."""
    taken: list[_Seen]


class Backward:
    """Watches gradients and steps; `stop` is called with what is about to be applied."""

    def __init__(
        self,
        records: Recorder,
        weights: Weights,
        *,
        stop: Callable[[FirstBad], None],
        gradients: bool,
        state_every: int,
        alone: Callable[[], bool],
    ) -> None:
        self.with_gradients = gradients
        self.watching = True
        self.entering = Entering(records.scans)
        self.steps = 0
        self.discarded = 0
        self.heard: set[int] = set()
        """Parameters (by id) whose gradients came."""
        self._records = records
        self._weights = weights
        self._stop = stop
        self._state_every = state_every
        self._alone = alone
        self._root = ""
        self._sharded = False
        self._names: dict[int, tuple[str, str, str]] = {}
        self._bad: dict[int, tuple[torch.Tensor, list[_Seen]]] = {}
        """By id: weights whose gradients are bad, or may be once a device has answered."""
        self._applied: deque[_Applied] = deque()
        self._trying = False
        """Whether an optimizer calls the model within its step, and uses all gradients of that."""
        self._came = False
        self._left_out = False
        """Whether gradients came that nobody looked at."""
        self._late: list[Any] = []
        """Parameters of lazy modules, which have no shape yet."""
        self._streak = 0
        self._loss_scale = LossScale()
        self._ours: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
        self._before: Callable[[], None] = lambda: None
        self._last_bad: tuple[str, int] | None = None

    def attach(
        self, model: torch.nn.Module, handles: list[Any], before_step: Callable[[], None]
    ) -> None:
        """Add the handles of hooks on all parameters, and on all optimizers of the process."""
        self._before = before_step
        self._root = type(model).__name__
        self._sharded = any(hasattr(weight, "device_mesh") for weight in model.parameters())
        self._names.clear()
        self._bad.clear()
        self._applied.clear()
        self._late.clear()
        handles += [
            optimizers.register_optimizer_step_pre_hook(self._step_begins),
            optimizers.register_optimizer_step_post_hook(self._step_ended),
        ]
        for name, module in model.named_modules():
            for own, weight in module._parameters.items():
                if weight is None or id(weight) in self._names:
                    continue
                self._names[id(weight)] = (name, own, type(module).__name__)
                if self.with_gradients:
                    self._listen(weight, handles)

    def attach_late(self, handles: list[Any]) -> None:
        """Add hooks on the parameters of lazy modules that have got their shapes by now."""
        if not self._late:
            return
        waiting, self._late = self._late, []
        for weight in waiting:
            self._listen(weight, handles)

    def _listen(self, weight: torch.Tensor, handles: list[Any]) -> None:
        if isinstance(weight, torch.nn.parameter.UninitializedTensorMixin):
            self._late.append(weight)
        elif weight.requires_grad and weight.is_leaf:
            handles.append(weight.register_post_accumulate_grad_hook(self._accumulated))

    @property
    def batch(self) -> int:
        """The batch whose backward pass runs, as far as forward passes tell."""
        return self.entering.batch

    @batch.setter
    def batch(self, number: int) -> None:
        self.entering.batch = number

    # -- gradients ------------------------------------------------------------------------------

    def listen_to(self, output: Any) -> None:
        """Look at the gradients of what the model gave, where those of weights are summed."""
        if self._sharded and self.with_gradients and self.watching:
            self.entering.listen(output)

    @shortened
    def _accumulated(self, weight: torch.Tensor) -> None:
        self._came = True
        self.entering.summed()
        if not self.watching or weight.grad is None or torch.compiler.is_compiling():
            self._left_out = True
            return
        name, own, class_name = self._names[id(weight)]
        self.heard.add(id(weight))
        if type(weight.grad) is torch.Tensor and weight.grad.dtype.itemsize > 1:
            numbers = self._records.scans.calls.numbers(weight.grad)
            if numbers is not None and numbers.ready and numbers.is_finite:
                self._records.gradient(name, class_name, own, numbers, self.batch)
                return
        cells: list[Cell] = []
        leaves: list[Leaf] = [(own, weight.grad)]
        self._records.scans.cells(CellKind.GRADIENT, leaves, cells)
        last = self._records.backward[-1] if self._records.backward else None
        frame = self._records.frame(name, class_name, cells, leaves, Phase.BACKWARD, self.batch)
        if _may_be_bad(frame):
            _, seen = self._bad.setdefault(id(weight), (weight, []))
            seen[:] = [one for one in seen if _may_be_bad(one.frame)]
            if not any(_is_here(one.frame) for one in seen):  # else it was bad before
                seen.append(_Seen(frame, last))

    def bad(self, frame: Frame) -> None:
        """Take a frame of gradients or of the optimizer that turned out to be bad."""
        if frame.phase is Phase.BACKWARD:
            self._last_bad = (f"{frame.module}.{frame.cells[0].name}".lstrip("."), frame.batch)
        elif frame.phase is Phase.OPTIMIZER:
            found = first_bad([frame])
            if found is not None:
                self._stop(found)

    def hints(self, weight: torch.Tensor, batch: int) -> tuple[str, ...]:
        """Return what gradients have to do with a weight of the model that is bad in a batch.

        Those of that batch itself are its consequence, and those that were discarded no cause.
        """
        if self._last_bad is None or self._last_bad[1] >= batch:
            if id(weight) in self.heard and self.steps and not self._left_out:
                return (
                    "its gradients were clean when they were made: look at what changes them "
                    "before the step (clipping, a division by 0), at the optimizer's state and "
                    "learning rate, and at code that writes weights",
                )
            return ()
        name, at = self._last_bad
        return (f"the gradient of {name} had gone bad in batch {at}",)

    def batch_begins(self) -> None:
        """Tell bad gradients that were dropped from those that still accumulate."""
        self._judge_applied()
        for key, (_, seen) in list(self._bad.items()):
            seen[:] = [one for one in seen if _may_be_bad(one.frame)]
            if not seen:
                del self._bad[key]
        dropped = [one.frame for _, seen in self._bad.values() for one in seen]
        if self._trying or not dropped or not all(map(_is_here, dropped)):
            return
        first = dropped[0]
        for key, (weight, _) in list(self._bad.items()):
            if not self._is_still_bad(weight):
                del self._bad[key]
        if self._bad:
            return
        self.discarded += 1
        self._last_bad = None
        self._streak += 1
        self._loss_scale.discarded(first.batch, self._streak, nan=_only_nan(dropped))
        if self._streak == 1:
            cell = first.cells[0]
            log.info(
                "batch %d: the gradient of %s held NaN or Inf and was discarded, nothing was "
                "updated with it",
                first.batch,
                f"{first.module}.{cell.name}".lstrip("."),
            )
        elif self._streak % _STREAK == 0:
            log.warning(
                "the gradients of %d batches in a row held NaN or Inf and were discarded: "
                "nothing is learned; if a GradScaler is in use, its scale finds no fit",
                self._streak,
            )

    def _is_still_bad(self, weight: torch.Tensor) -> bool:
        if weight.grad is None:
            return False
        cells: list[Cell] = []
        self._records.scans.cells(CellKind.GRADIENT, [("", weight.grad)], cells)
        return any(map(is_bad, cells))

    # -- steps ----------------------------------------------------------------------------------

    def _is_ours(self, optimizer: Any) -> bool:
        known = self._ours.get(optimizer)
        if known is None:
            every = (p for group in optimizer.param_groups for p in group["params"])
            known = any(id(p) in self._names for p in every)
            self._ours[optimizer] = known
        return known

    @shortened
    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Judge gradients that are about to be applied: now, or when a closure has made them."""
        if not self._is_ours(optimizer):
            return None
        self._trying = isinstance(optimizer, torch.optim.LBFGS)
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None or self._trying:
            self._judge(optimizer)
            return None

        def judged() -> Any:
            loss = closure()
            self._judge(optimizer)
            return loss

        if len(args) > 1:
            return (args[0], judged, *args[2:]), kwargs
        return args, {**kwargs, "closure": judged}

    def _judge(self, optimizer: Any) -> None:
        self._before()
        if not self._bad or getattr(optimizer, "found_inf", None) is not None:
            return  # a fused optimizer under GradScaler skips by itself
        steps = {id(p) for group in optimizer.param_groups for p in group["params"]}
        taken = [self._bad.pop(key) for key in steps if key in self._bad]
        bad: list[_Seen] = []
        late: list[tuple[torch.Tensor, list[_Seen]]] = []
        for weight, seen in taken:
            if not all(_is_here(one.frame) for one in seen):
                late.append((weight, seen))
            elif any(_may_be_bad(one.frame) for one in seen) and self._is_still_bad(weight):
                bad += seen
        if bad:
            self._stop_for(bad, "was about to be applied")
        if late:
            numbers = self._as_applied([weight for weight, _ in late])
            self._applied.append(_Applied(numbers, [one for _, seen in late for one in seen]))

    def _as_applied(self, weights: list[torch.Tensor]) -> list[Any]:
        """Start scans of gradients as they are now: clipping may have written to them."""
        cells: list[Cell] = []
        leaves: list[Leaf] = [("", w.grad) for w in weights if w.grad is not None]
        self._records.scans.cells(CellKind.GRADIENT, leaves, cells)
        return [cell.numbers for cell in cells if cell.numbers is not None]

    def _judge_applied(self, *, wait: bool = False) -> None:
        """Judge gradients that steps have applied before a device gave their numbers."""
        while self._applied:
            numbers, taken = self._applied[0]
            late = wait or len(self._applied) > _MOST_APPLIED
            if not late and not all(n.ready for n in numbers):
                return
            self._applied.popleft()
            bad = [one for one in taken if any(map(is_bad, one.frame.cells))]
            if bad and not all(n.is_finite for n in numbers):
                self._stop_for(bad, "was applied before the device gave its numbers")

    def took_gradients(self) -> bool:
        """Return whether gradients came since this was last asked."""
        came, self._came = self._came, False
        return came

    def settle(self) -> None:
        """Judge what steps have applied, waiting for a device: at the end."""
        self._judge_applied(wait=True)

    def _stop_for(self, bad: list[_Seen], what: str) -> None:
        bad = [one for one in bad if any(map(is_bad, one.frame.cells))]
        frame, last = min(bad, key=lambda one: one.frame.number)
        found = first_bad([frame])
        assert found is not None
        hints = _gradient_hints(found, last, len(bad) - 1, what)
        if not self._records.called:
            hints = (hints[0], _NO_FORWARD)
        found = replace(found, hints=hints)
        sent = self.entering.first_bad(found.batch) if found.summed else None
        if sent is not None:
            self._records.note("", self._root, [sent], found.batch, Phase.BACKWARD)
            found = before_sum(found, self._root, sent)
        self._stop(found)

    @shortened
    def _step_ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._is_ours(optimizer):
            return
        self.steps += 1
        self._streak = 0
        self._trying = False
        self._weights.epoch = self.steps
        if self._state_every and self.steps % self._state_every == 0:
            self._look_at_state(optimizer)

    def _look_at_state(self, optimizer: Any) -> None:
        for weight, state in list(optimizer.state.items()):
            place = self._names.get(id(weight))
            if place is None:
                continue
            name, own, class_name = place
            cells: list[Cell] = []
            leaves: list[Leaf] = list(tensors_in(state, own))
            self._records.scans.cells(CellKind.STATE, leaves, cells)
            if cells:
                self._records.frame(name, class_name, cells, leaves, Phase.OPTIMIZER, self.batch)


def _is_here(frame: Frame) -> bool:
    return all(c.numbers is None or c.numbers.ready for c in frame.cells)  # type: ignore[union-attr]


def _may_be_bad(frame: Frame) -> bool:
    return any(cell.numbers is not None and is_bad_now(cell) for cell in frame.cells)


def _gradient_hints(found: FirstBad, last: Frame | None, others: int, what: str) -> tuple[str, ...]:
    said = [f"it {what}, with {counted(others, 'other bad gradient')}"]
    if found.summed:
        said.append(
            "gradients of sharded weights are summed over all ranks before they are seen: the loss "
            "or the backward pass of any rank may have made it"
        )
    elif last is None or last.batch != found.batch:
        said.append(
            "it is the first gradient of its batch: the loss made it, or what lies between the "
            f"loss and {found.module or 'the model'}"
        )
    elif last.cells and _is_here(last) and not any(map(is_bad, last.cells)):
        name = f"{last.module}.{last.cells[0].name}".lstrip(".")
        said.append(
            f"the gradient that came before it, of {name}, was clean: what lies between the two "
            "made it"
        )
    elif last.cells and _is_here(last):
        name = f"{last.module}.{last.cells[0].name}".lstrip(".")
        said.append(f"the gradient that came before it, of {name}, was bad already")
    return (*said, *found.hints)


def _only_nan(frames: list[Frame]) -> bool:
    """Return whether bad gradients hold NaN and no Inf: sums of Inf and -Inf are NaN too."""
    numbers = [cell.numbers for frame in frames for cell in frame.cells if cell.numbers is not None]
    return any(n.nan_count for n in numbers) and not any(n.inf_count for n in numbers)


def is_bad_now(cell: Cell) -> bool:
    """Return whether a cell is bad, or may be once a device has answered."""
    return not cell.numbers.ready or is_bad(cell)  # type: ignore[union-attr]
