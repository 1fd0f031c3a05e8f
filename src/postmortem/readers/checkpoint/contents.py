"""What of a checkpoint lies below an object that was followed out of a pickle, and its names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from postmortem.readers.checkpoint.arrays import MAKERS, is_nan_scalar
from postmortem.readers.checkpoint.objects import Entries, Storage, Tensor, Unknown
from postmortem.readers.checkpoint.rebuilding import ON_META, REBUILT

_MOST_NAMES = 2_000_000
_LONGEST_WORD = 200
_DEEPEST = 128
_SHOWN_OF_DEEP = 8
"""Words of the name of what lies deeper than that."""
SAVED_WITHIN = "torch.storage._load_from_bytes"
"""How pickle.dump() writes a tensor: torch.save() into bytes."""

_OF_MODULE = re.compile(r"(?:^|(?<=\.))_(?:modules|parameters|buffers)\.")
"""Where a torch.nn.Module keeps what state_dict() names without these."""


def contents_of(root: object) -> Iterator[tuple[str, Tensor | Unknown | float]]:
    """Yield what holds numbers below an object, with the path to it: ``optimizer.state.0.exp_avg``.

    That is tensors, and Unknowns: what pickles of NumPy's arrays were followed to, and tensors of
    which the values are not there or not found. Of plain numbers only NaN is yielded.
    """
    seen: set[int] = set()
    stack: list[tuple[_Path | None, object]] = [(None, root)]
    for _ in range(_MOST_NAMES):
        if not stack:
            return
        where, value = stack.pop()
        if isinstance(value, Storage):
            if value.dtype is not None:
                value = Tensor(value, value.dtype, value.begin, (value.numel,), (1,))
            else:
                continue
        if isinstance(value, Tensor):
            yield _name(where), value
            continue
        if _is_nan(value):
            yield _name(where), math.nan
        elif isinstance(value, (dict, list, tuple, Unknown)):
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Unknown) and _is_array(value):
                yield _name(where), value
                continue
            stack.extend(reversed(list(_below(where, value))))


def _is_nan(value: object) -> bool:
    if type(value) is float:
        return value != value
    return isinstance(value, Unknown) and is_nan_scalar(value)


def _is_array(value: Unknown) -> bool:
    name = value.name
    return name in MAKERS or name in (SAVED_WITHIN, ON_META) or name.startswith(REBUILT)


def _below(path: _Path | None, value: object) -> Iterator[tuple[_Path | None, object]]:
    if isinstance(value, Unknown):
        yield path, value.parts
        yield path, value.listed
        yield path, value.entries
        yield path, value.state
        return
    pairs: Iterable[tuple[object, object]] = ()
    if isinstance(value, Entries) and value.state is not None:
        yield path, value.state
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, (list, tuple)):
        pairs = enumerate(value)
    for key, item in pairs:
        number = type(item) is float and item != item
        if number or isinstance(item, (Tensor, Storage, dict, list, tuple, Unknown)):
            yield _Path(path, _word(key)), item


class _Path:
    """A word of a name, and those before it, which other names share."""

    __slots__ = ("above", "depth", "word")

    def __init__(self, above: _Path | None, word: str) -> None:
        self.above = above
        self.word = word
        self.depth: int = 1 if above is None else above.depth + 1


def _word(key: object) -> str:
    if isinstance(key, str):
        return key[:_LONGEST_WORD]
    if isinstance(key, tuple) and any(isinstance(p, str) and len(p) > _LONGEST_WORD for p in key):
        key = tuple(part[:_LONGEST_WORD] if isinstance(part, str) else part for part in key)
    try:
        return str(key)[:_LONGEST_WORD]
    except ValueError:  # an integer of more digits than Python writes
        return "a large number"


def _name(path: _Path | None) -> str:
    """Return the words of a path with dots between; of what lies very deep the last ones."""
    shown = _DEEPEST if path is None or path.depth <= _DEEPEST else _SHOWN_OF_DEEP
    words: list[str] = []
    while path is not None and len(words) < shown:
        words.append(path.word)
        path = path.above
    if path is not None:
        words.append("…")
    return _OF_MODULE.sub("", ".".join(reversed(words)))
