"""What becomes of bad numbers: who made them, what is printed, and when it is raised."""

import logging
import sys
from collections.abc import Callable, Collection
from typing import Literal, TextIO

import torch

from postmortem.diagnose.numerics.first_bad import (
    FirstBad,
    Origin,
    first_bad,
    from_batch,
    is_bad,
    read_outside,
    with_beside,
)
from postmortem.facts.confidence import Confidence
from postmortem.facts.frames import Cell, CellKind, Frame, Phase
from postmortem.monitor.backward import Backward
from postmortem.monitor.calls import Call, frame_of
from postmortem.monitor.errors import NumericsError
from postmortem.monitor.ranks import Ranks
from postmortem.monitor.recorder import Recorder
from postmortem.monitor.untracked import Given, bad_beside
from postmortem.monitor.weight_scan import bad_tensor
from postmortem.records import replace
from postmortem.report.frame_text import dump, frame_text

log = logging.getLogger("postmortem.monitor")
_MOST_REPORTS = 3
_LATER = 1 << 40
"""What a forward pass finds comes after what the backward pass before it has left."""
_SUMMED = 1 << 39
"""What ranks have summed comes after what one of them had before the sum."""


class Verdict:
    """Judges bad frames of one process; with several ranks nothing is raised before all agree."""

    def __init__(
        self,
        model: torch.nn.Module,
        records: Recorder,
        ranks: Ranks,
        *,
        trace: Collection[int],
        on_bad: Literal["raise", "report"],
        out: TextIO | None,
        message: Callable[[FirstBad], str],
        blind: Callable[[], None],
        previous: Callable[[str], Call | Frame | None],
    ) -> None:
        self.first_bad: FirstBad | None = None
        self.reports = 0
        self.raised = False
        self.opened_at = 0
        """How many frames there were when the batch began."""
        self.given: tuple[Given, ...] = ()
        """The arguments of the calls that run, while a frame of the last of them is judged."""
        self.backward: Backward | None = None
        self._model = model
        self._records = records
        self._ranks = ranks
        self._trace = trace
        self._on_bad = on_bad
        self._out = out
        self._message = message
        self._blind = blind
        """Ends the watch until the next batch: all that follows is only passed on."""
        self._previous = previous
        """Gives the last call of a module that was kept, before the one that is judged."""
        self._batches: dict[int, tuple[Frame, int]] = {}

    def batch_begins(self, frame: Frame, kept: int) -> None:
        """Take what came into the model; forget what came so many batches ago."""
        assert self.backward is not None
        self._batches[frame.batch] = frame, self.backward.steps
        self._batches.pop(frame.batch - kept, None)

    def judge(self, frame: Frame) -> None:
        """Say what is bad in a frame, and stop if it is nobody's mask."""
        assert self.backward is not None
        if frame.phase is not Phase.FORWARD:
            self.backward.bad(frame)
            return
        if self.reports < _MOST_REPORTS or frame.batch in self._trace:
            for cell in filter(is_bad, frame.cells):
                self._say_cell(cell)
        found = first_bad(self._until(frame), rank=self._ranks.rank)
        if found is None:
            return
        found = self._of_the_batch(found)
        if self.first_bad is None:
            self.first_bad = found
        if frame.batch not in self._trace:
            self.stop(found)

    def _until(self, frame: Frame) -> list[Frame]:
        earlier = [f for f in self._records.forward if f.number < frame.number]
        if any(cell.kind is CellKind.WEIGHT and is_bad(cell) for cell in frame.cells):
            earlier = self._with_previous(frame.module, earlier, frame.number)
        return [*earlier, frame]

    def _with_previous(self, module: str, frames: list[Frame], until: int) -> list[Frame]:
        """Add the last call of a module if it is older than all frames, and clean."""
        last = self._previous(module)
        if last is None or last.number >= min([until, *(frame.number for frame in frames[:1])]):
            return frames
        seen = frame_of(last)
        return frames if any(map(is_bad, seen.cells)) else [seen, *frames]

    def _of_the_batch(self, found: FirstBad) -> FirstBad:
        """Say that numbers came with the batch, or with gradients before it, where they did."""
        batch, _ = self._batches.get(found.batch, (None, 0))
        if found.origin is Origin.BETWEEN and batch is not None:
            came = first_bad([batch], rank=found.rank)
            told = from_batch(found, came, self._records.forward) if came is not None else None
            if told is not None:
                self._records.note("", told.class_name, batch.cells, found.batch, Phase.BATCH)
                return told
        if self.first_bad is None and found.origin in (Origin.PRODUCER, Origin.BETWEEN):
            found = self._of_a_tensor(found)
        if found.origin is not Origin.WEIGHT:
            return found
        assert self.backward is not None
        every = dict(self._model.named_parameters(remove_duplicate=False))
        full = f"{found.module}.{found.cell}".lstrip(".")
        weight = every.get(full)
        names = tuple(n for n, p in every.items() if p is weight and n != full)
        hints: tuple[str, ...] = ()
        if weight is not None and weight.requires_grad:
            hints = self.backward.hints(weight, found.batch)
        return replace(found, names=names, hints=(*hints, *found.hints))

    def _of_a_tensor(self, found: FirstBad) -> FirstBad:
        """Say that a weight or a buffer is bad that was read without a call of its module."""
        suspect = bad_tensor(self._model, found)
        if suspect is None:
            return self._with_beside(found)
        name, owner, cell, confidence = suspect
        assert self.backward is not None
        steps = self.backward.steps
        if self._batches.get(found.batch, (None, steps))[1] != steps:
            confidence = (
                Confidence.POSSIBLE
            )  # numbers of a device came late: a step has written it since
        self._records.note(name, type(owner).__name__, [cell], found.batch)
        before = self._with_previous(name, self._records.forward, found.frame)
        return read_outside(found, name, type(owner).__name__, cell, confidence, before)

    def _with_beside(self, found: FirstBad) -> FirstBad:
        """Say what else is bad of what the module may have read."""
        beside = bad_beside(self._model, found, self.given)
        if beside is None:
            return found
        self._records.note(*beside[:2], [beside[2]], found.batch)
        return with_beside(found, *beside)

    def stop(self, found: FirstBad) -> None:
        """Print the report and raise; with several ranks, when all of them have agreed to."""
        found = replace(found, rank=self._ranks.rank)
        if self.first_bad is None:
            self.first_bad = found
        if self._ranks.several():
            if self._ranks.pending is None:
                self._ranks.pending = found
                early = found.origin in (Origin.GRADIENT, Origin.STATE)  # of the batch before
                after = (_SUMMED if found.summed else 0) if early else _LATER
                self._ranks.order = found.frame - self.opened_at + after
            self._blind()
            return
        self._report(found)
        self._raise(found)
        self._blind()

    def agree(self) -> None:
        """Raise on all ranks if numbers of any went bad; all ranks have to call it."""
        chosen, others = self._ranks.agree()
        if chosen is None:
            return
        if chosen.rank == self._ranks.rank:
            self._report(chosen)
        else:
            mine = self._ranks.rank
            self.print(f"rank {mine} stops with rank {chosen.rank}: {self.said(chosen)}")
        self._ranks.pending = None
        self._raise(chosen, f"; also bad: ranks {', '.join(map(str, others))}" if others else "")

    def raise_pending(self) -> None:
        """Report what was never agreed on, because no training batch came any more."""
        pending, self._ranks.pending = self._ranks.pending, None
        if pending is None:
            return
        self._report(pending)
        self._raise(pending)

    def _raise(self, found: FirstBad, beside: str = "") -> None:
        if self._on_bad == "raise":
            self.raised = True
            if self._records.flight is not None:  # whoever trains may never come to detach
                self._records.flight.ends("stopped")
            raise NumericsError(self._message(found) + beside, found)

    def _report(self, found: FirstBad) -> None:
        self.reports += 1
        if self.reports > _MOST_REPORTS:
            return
        forward = [f for f in self._records.forward if f.batch not in self._trace]  # else shown
        frames = [f for f in forward if found.frame == 0 or f.number <= found.frame]
        lines = [dump(frames, found.batch)]
        beside = [f for f in self._records.backward if any(map(is_bad, f.cells))]
        if found.origin in (Origin.GRADIENT, Origin.STATE) and beside:
            lines += [frame_text(frame) for frame in beside[:5]]
        lines.append(f"\nfirst bad: {self.said(found)}")
        lines.append(f"  {found.confidence}" + "".join(f"\n  {hint}" for hint in found.hints))
        if found.names:
            lines.append(f"  also known as {', '.join(found.names)}")
        self.print("\n".join(lines) + "\n\n")

    def said(self, found: FirstBad) -> str:
        """Return what happened in one sentence."""
        return found.sentence(self._ranks.size)

    def _say_cell(self, cell: Cell) -> None:
        assert cell.numbers is not None
        if cell.numbers.nan_count:
            self.print(f"{cell.name} has nans")
        if cell.numbers.inf_count:
            self.print(f"{cell.name} has infs")

    def print(self, text: str) -> None:
        """Write a line where reports go; a pipe that nobody reads is no failure of the numbers."""
        out = self._out if self._out is not None else sys.stdout
        try:
            out.write(text + "\n")
            out.flush()
        except (OSError, ValueError) as error:
            log.warning("the report could not be written: %s", error)
