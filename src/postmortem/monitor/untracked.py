"""Bad tensors that no frame shows and nobody can judge: attributes of modules and of arguments.

A module may read a tensor that is neither weight nor buffer, or an object it was given, of a class
that is no container. That such a tensor is bad may be the cause, or what the call left there; so it
is told beside what was found, and changes nothing but how sure that is.
"""

from collections.abc import Iterator
from typing import Any

import torch

from postmortem.diagnose.numerics.first_bad import FirstBad, Origin
from postmortem.facts.frames import Cell, CellKind, Note
from postmortem.monitor.scans import is_mask_kept, scan_any
from postmortem.monitor.walk import is_container, tensors_in

_MOST_MODULES = 256
_OF_MODULES = frozenset(torch.nn.Module().__dict__)
_PRIMITIVE = (bool, int, float, complex, str, bytes, type(None))

Given = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of a call."""


def bad_beside(
    model: torch.nn.Module, found: FirstBad, given: tuple[Given, ...]
) -> tuple[str, str, Cell] | None:
    """Return module, class and cell of a bad tensor beside what was found, if there is any.

    given: the arguments of the model, and of the module that was found.
    """
    for args, kwargs in given:
        for name, value in _objects(args, kwargs):
            for own, inner in list(vars(value).items()):
                cell = _bad(tensors_in(inner, f"{name}.{own}"))
                if cell is not None:
                    return "", type(value).__name__, cell
    for name, module in _modules(model, found):
        for own, value in list(vars(module).items()):
            cell = None if own in _OF_MODULES else _bad(tensors_in(value, own))
            if cell is not None:
                return name, type(module).__name__, cell
    return None


def _objects(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for at, value in [*enumerate(args), *kwargs.items()]:
        if isinstance(value, (torch.Tensor, torch.nn.Module, type, *_PRIMITIVE)):
            continue
        if not is_container(value) and hasattr(value, "__dict__"):
            yield f"input[{at}]", value


def _modules(model: torch.nn.Module, found: FirstBad) -> Iterator[tuple[str, torch.nn.Module]]:
    """Give the modules whose code may have run: a producer's parts, or those around the other."""
    try:
        module = model.get_submodule(found.module)
    except AttributeError:  # gone meanwhile
        return
    if found.origin is Origin.PRODUCER:
        for at, inner in enumerate(module.named_modules(prefix=found.module)):
            if at < _MOST_MODULES:
                yield inner
        return
    name = found.module
    while name:
        name = name.rpartition(".")[0]
        yield name, model.get_submodule(name)


def _bad(named: list[tuple[str, torch.Tensor]]) -> Cell | None:
    for name, tensor in named:
        if tensor.grad_fn is not None:  # this pass or one before has made it
            continue
        numbers = scan_any(tensor)
        if isinstance(numbers, str) or numbers.is_finite or is_mask_kept(name, tensor, numbers):
            continue
        return Cell(CellKind.INPUT, name, numbers, Note.BESIDE)
    return None
