"""Inputs that a module gives back: when its hook runs, they are what the module made of them.

A hook after the call sees an input as it is then. If that is bad, and the module returned the same
memory, nobody can tell any more whether it came so or was spoiled in place.
"""

import torch

from postmortem.diagnose.numerics.first_bad import is_bad
from postmortem.facts.frames import Cell, CellKind, Note
from postmortem.monitor.walk import Leaf


def given_back(leaves: list[Leaf]) -> frozenset[str]:
    """Return the names of inputs that were written to in place and have the memory of an output."""
    places: dict[int, list[str]] = {}
    outputs: set[int] = set()
    for name, leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            continue
        at = _address(leaf)
        if not at:
            continue
        if name.startswith("output"):
            outputs.add(at)
        elif _was_written(leaf):
            places.setdefault(at, []).append(name)
    return frozenset(name for at, names in places.items() if at in outputs for name in names)


def mark_given_back(cells: list[Cell], names: frozenset[str]) -> None:
    """Note of bad inputs with these names that the module may have made them bad."""
    for cell in cells:
        if cell.kind is CellKind.INPUT and cell.name in names and is_bad(cell) and not cell.note:
            cell.note = Note.IN_PLACE


def _address(tensor: torch.Tensor) -> int:
    """Return where the values lie; 0 for tensors without memory of their own."""
    try:
        return int(tensor.data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0


def _was_written(tensor: torch.Tensor) -> bool:
    try:
        return bool(tensor._version > 0)
    except RuntimeError:  # made in inference mode, where nobody counts
        return True
