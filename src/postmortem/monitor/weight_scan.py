"""Bad weights and buffers that no frame shows: read by code that does not call their module.

A model adds its position embeddings between two modules; `MultiheadAttention` hands the weights of
its projection to a function; rotary frequencies are a buffer. The frame where this shows has clean
inputs and clean weights of its own, or a bad input that nobody made. So once something is bad,
and before anybody is named, the tensors near that module are read.
"""

from collections.abc import Iterator

import torch

from postmortem.diagnose.numerics.first_bad import FirstBad, Origin
from postmortem.facts.confidence import Confidence
from postmortem.facts.frames import Cell, CellKind, Note
from postmortem.monitor.scans import is_mask_kept, scan_any


def bad_tensor(
    model: torch.nn.Module, found: FirstBad
) -> tuple[str, torch.nn.Module, Cell, Confidence] | None:
    """Return module, cell and confidence of a bad tensor that explains what was found, if any is.

    Waits for a device: only for what is bad already.
    """
    try:
        module = model.get_submodule(found.module)
    except AttributeError:  # gone meanwhile
        return None
    for name, owner, is_near in _near(model, found.module, module, found.origin):
        for own, tensor in _tensors(owner):
            numbers = scan_any(tensor)
            if isinstance(numbers, str) or numbers.is_finite or is_mask_kept(own, tensor, numbers):
                continue
            is_weight = own in owner._parameters
            sure = is_near and is_weight and (owner is module or _reads_its_parts(module))
            cell = Cell(CellKind.WEIGHT, own, numbers, Note.READ_OUTSIDE)
            return name, owner, cell, Confidence.CERTAIN if sure else Confidence.LIKELY
    return None


def _near(
    model: torch.nn.Module, name: str, module: torch.nn.Module, origin: Origin
) -> Iterator[tuple[str, torch.nn.Module, bool]]:
    """Give the modules whose tensors the code in question may have read, the nearest first.

    Of a producer that is what it holds; of what came from between modules, what those around it
    hold themselves, and what their parts hold. `bool`: whether it is within the module.
    """
    if origin is Origin.PRODUCER:
        for inner, part in module.named_modules(prefix=name):
            yield inner, part, True
        return
    parents = [name]
    while parents[-1]:
        parents.append(parents[-1].rpartition(".")[0])
    around = [(outer, model.get_submodule(outer)) for outer in parents[1:]]
    for outer, owner in around:
        yield outer, owner, False
    for outer, owner in around[:1]:
        for inner, part in owner.named_modules(prefix=outer):
            yield inner, part, False


def _tensors(owner: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for own, weight in owner._parameters.items():
        if weight is not None:
            yield own, weight
    norm = isinstance(owner, torch.nn.modules.batchnorm._NormBase)
    if norm and owner.training:  # running statistics are what a batch did to it, no cause
        return
    for own, buffer in owner._buffers.items():
        if buffer is not None:
            yield own, buffer


def _reads_its_parts(module: torch.nn.Module) -> bool:
    """Whether a module is known to read the weights of its parts without calling them."""
    return isinstance(module, torch.nn.MultiheadAttention)
