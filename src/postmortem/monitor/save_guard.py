"""What a checkpoint of the model would hold: all weights, and the buffers that are saved."""

from collections.abc import Callable, Iterator

import torch

from postmortem.diagnose.numerics.first_bad import FirstBad, first_bad, is_bad
from postmortem.facts.frames import Cell, CellKind, Frame
from postmortem.monitor.calls import Call, frame_of
from postmortem.monitor.scans import Scans


def bad_to_save(
    model: torch.nn.Module, scans: Scans, batch: int, previous: Callable[[str], Call | Frame | None]
) -> FirstBad | None:
    """Return the first weight that holds NaN or Inf, or buffer that is spoiled.

    previous: gives the last call of a module, which tells since when its weight is bad.
    Infinities of a buffer may be meant (masks, a least value so far); NaN are not, nor are
    infinities among running statistics.
    """
    seen: set[int] = set()
    for name, module in model.named_modules():
        statistics = isinstance(module, torch.nn.modules.batchnorm._NormBase)
        for own, tensor, is_weight in _saved(module):
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            cells: list[Cell] = []
            scans.forget()
            scans.cells(CellKind.WEIGHT, [(own, tensor)], cells)
            if not is_weight and not statistics:
                cells = [c for c in cells if c.numbers is not None and c.numbers.nan_count]
            if any(map(is_bad, cells)):
                frame = Frame(0, batch, name, type(module).__name__, cells)
                last = previous(name)
                before = [] if last is None else [frame_of(last)]
                return first_bad(
                    [one for one in before if not any(map(is_bad, one.cells))] + [frame]
                )
    return None


def _saved(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor, bool]]:
    """Give the name and values of what a module saves of its own, and whether it is a weight."""
    for own, weight in module._parameters.items():
        if weight is not None:
            yield own, weight, True
    for own, buffer in module._buffers.items():
        if buffer is not None and own not in module._non_persistent_buffers_set:
            yield own, buffer, False
