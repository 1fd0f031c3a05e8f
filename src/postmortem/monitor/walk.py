"""The tensors in what a module takes and gives: any nesting of containers, bounded.

Names are those of transformers' debug_utils where it has any (``input[0]``, ``output[1][0]``); keys
of mappings and keyword arguments stand in the same brackets, fields of dataclasses after a dot.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

Leaf = tuple[str, "torch.Tensor | str"]
"""Name, and the tensor or what stood in its place."""

_MOST_LEAVES = 512
_MOST_VISITS = 4096
_DEEPEST = 8
_NONE, _OTHER = "None", "not a tensor"
_INPUTS = tuple(f"input[{i}]" for i in range(16))
_Tensor = torch.Tensor


def inputs_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Leaf]:
    """Return the leaves of a call: every positional argument, and the tensors of the named ones."""
    leaves: list[Leaf] = []
    for at, value in enumerate(args):
        name = _INPUTS[at] if at < len(_INPUTS) else f"input[{at}]"
        if isinstance(value, _Tensor):
            leaves.append((name, value))
        else:
            _argument(value, name, leaves)
    if kwargs:
        walk = _Walk(leaves)
        for key, value in kwargs.items():
            if isinstance(value, _Tensor):
                leaves.append((f"input[{key}]", value))
            elif value is not None and not isinstance(value, (bool, int, float, str)):
                walk.tensors(value, f"input[{key}]", 0)
    return leaves


def outputs_of(output: Any) -> list[Leaf]:
    """Return the leaves of what a module gave."""
    if isinstance(output, _Tensor):
        return [("output", output)]
    leaves: list[Leaf] = []
    if isinstance(output, tuple):
        for at, value in enumerate(output):
            if isinstance(value, tuple):
                for place, inner in enumerate(value):
                    _argument(inner, f"output[{at}][{place}]", leaves)
            else:
                _argument(value, f"output[{at}]", leaves)
    else:
        _argument(output, "output", leaves)
    return leaves


def tensors_in(value: Any, name: str) -> list[tuple[str, torch.Tensor]]:
    """Return all tensors in a value with their names."""
    leaves: list[Leaf] = []
    _Walk(leaves).tensors(value, name, 0)
    return [(place, leaf) for place, leaf in leaves if isinstance(leaf, _Tensor)]


def learn_opaque(values: tuple[Any, ...], into: set[type]) -> None:
    """Add the types among arguments that are no containers, nor tensors."""
    for value in values:
        kind = type(value)
        if kind not in into and not is_container(value) and not isinstance(value, _Tensor):
            into.add(kind)


def is_container(value: Any) -> bool:
    """Return whether a walk looks into a value."""
    return (
        isinstance(value, (list, tuple, Mapping))
        or dataclasses.is_dataclass(value)
        or type(value) in torch.utils._pytree.SUPPORTED_NODES
    )


def _argument(value: Any, name: str, leaves: list[Leaf]) -> None:
    """Add one argument: a row at least, also where no tensor is in it."""
    if len(leaves) >= _MOST_LEAVES:
        return
    if isinstance(value, _Tensor):
        leaves.append((name, value))
    elif value is None:
        leaves.append((name, _NONE))
    else:
        before = len(leaves)
        _Walk(leaves).tensors(value, name, 0)
        if len(leaves) == before:
            leaves.append((name, _OTHER))


class _Walk:
    """A walk through containers that ends, also where they hold each other."""

    def __init__(self, leaves: list[Leaf]) -> None:
        self._leaves = leaves
        self._visits = 0

    def tensors(self, value: Any, name: str, depth: int) -> None:
        """Add the tensors in a value."""
        self._visits += 1
        if isinstance(value, _Tensor):
            if len(self._leaves) < _MOST_LEAVES:
                self._leaves.append((name, value))
            return
        if depth > _DEEPEST or self._visits > _MOST_VISITS:
            return
        if isinstance(value, (list, tuple)):
            for at, inner in enumerate(value):
                if self._visits > _MOST_VISITS:
                    return
                self.tensors(inner, f"{name}[{at}]", depth + 1)
        elif isinstance(value, Mapping):
            for key in list(value):
                if self._visits > _MOST_VISITS:
                    return
                self.tensors(value[key], f"{name}[{key}]", depth + 1)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                inner = getattr(value, field.name, None)
                self.tensors(inner, f"{name}.{field.name}", depth + 1)
        elif type(value) in torch.utils._pytree.SUPPORTED_NODES:
            for at, inner in enumerate(torch.utils._pytree.tree_leaves(value)):
                self.tensors(inner, f"{name}[{at}]", depth + 1)
