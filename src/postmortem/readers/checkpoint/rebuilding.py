"""What the calls in a pickle make: tensors, containers, and objects that hold them.

How tensors are rebuilt: torch/_utils.py and torch/_tensor.py.
"""

from collections.abc import Callable
from typing import Any

from postmortem.readers.checkpoint.objects import (
    Entries,
    Global,
    PickleError,
    Storage,
    Tensor,
    Unknown,
)

Copies = Callable[[int], None]
_LONGEST_KEY = 4096
_MOST_DIMENSIONS = 64
"""Of a tensor (c10/core/TensorImpl.h has no more in practice)."""
_MAY_HOLD = (Tensor, Storage, Unknown, dict, list, tuple)
"""Where a tensor can be."""

_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "QInt8Storage": "int8",
    "QUInt8Storage": "uint8",
    "QInt32Storage": "int32",
}
REBUILT = "torch._utils._rebuild_tensor"
"""What rebuilds a tensor on its storage, with an ending for its version."""
ON_META = "torch._utils._rebuild_meta_tensor_no_storage"
_FROM_TYPE = "torch._tensor._rebuild_from_type_v2"
_REBUILT_IN_PLACE = frozenset(
    {"torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state", _FROM_TYPE}
)
_QUANTIZED = "torch._utils._rebuild_qtensor"
_SPARSE = ("torch._utils._rebuild_sparse_tensor", "torch._utils._rebuild_sparse_csr_tensor")
_IN_PARTS = frozenset({_QUANTIZED, *_SPARSE})
_SPARSE_PARTS = {2: ("indices", "values"), 3: ("compressed_indices", "plain_indices", "values")}
_CONTAINERS = {
    "collections.OrderedDict": Entries,
    "builtins.dict": Entries,
    "collections.defaultdict": Entries,
    "builtins.list": list,
    "builtins.set": list,
    "builtins.frozenset": list,
    "builtins.tuple": tuple,
    "torch.Size": tuple,
}


def extend(target: object, values: list[Any]) -> None:
    """Append to a list, or to what is one with a class of its own."""
    if isinstance(target, list):
        target.extend(values)
    elif isinstance(target, Unknown):
        target.listed += values


def update(target: object, pairs: list[Any]) -> None:
    """Put key, value, key, value… into a dict, or into what is one with a class of its own."""
    if len(pairs) % 2:
        raise PickleError("a key has no value")
    if isinstance(target, Unknown):
        target = target.entries
    if not isinstance(target, dict):
        return
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        target[_key(key, len(target))] = value


def _key(key: object, count: int) -> object:
    """Return a key that can be hashed and shown without walking through what was crafted."""
    plain = (str, int, float, bool, type(None))
    if isinstance(key, (*plain, Unknown)) or (
        isinstance(key, tuple) and len(key) < 8 and all(isinstance(part, plain) for part in key)
    ):
        return key
    return f"<{type(key).__name__} {count}>"


def storage_of(value: object) -> object:
    """Return the storage that a persistent ID names: ('storage', type, key, location, numel)."""
    if not isinstance(value, tuple) or len(value) < 5 or value[0] != "storage":
        return Unknown("persistent ID", value)
    _, kind, key, _, numel = value[:5]
    if not isinstance(key, (str, int)) or len(str(key)) > _LONGEST_KEY:
        raise PickleError("the key of a storage is not a name")
    name = kind.name.rpartition(".")[2] if isinstance(kind, Global) else ""
    if not isinstance(numel, int):
        raise PickleError("the size of a storage is not a number")
    begin = 0
    if len(value) > 5 and isinstance(value[5], tuple) and len(value[5]) == 3:  # key, offset, size
        begin = value[5][1]
        if type(begin) is not int or not 0 <= begin < 1 << 62:
            raise PickleError("the offset of a storage is not a number")
    return Storage(str(key), _STORAGES.get(name), numel, begin)


def called(function: object, arguments: object, copies: Copies) -> object:
    """Return what a call makes, as far as it is understood; else an Unknown with its arguments.

    `copies` is told before elements are copied, and may refuse by PickleError.
    """
    if isinstance(function, Unknown):
        return _called_later(function, arguments, copies)
    name = function.name if isinstance(function, Global) else "?"
    parts = arguments if isinstance(arguments, tuple) else ()
    if name.startswith(REBUILT) and len(parts) >= 4:
        tensor = _tensor(name, parts)
        if tensor is not None:
            return tensor
    if name in _REBUILT_IN_PLACE and parts:
        is_call = name == _FROM_TYPE and len(parts) >= 3
        made = called(parts[0], parts[2], copies) if is_call else parts[0]
        return _with_attributes(name, made, parts[3] if len(parts) > 3 else None, copies)
    if name in _IN_PARTS:
        return Unknown(name, _in_parts(name, parts))
    container = _CONTAINERS.get(name)
    if container is not None:
        inside = parts[0] if parts else ()
        copies(len(inside) if isinstance(inside, (list, tuple, dict)) else 0)
        if container is Entries:
            return _entries(inside)
        return container(inside) if isinstance(inside, (list, tuple)) else container()
    return Unknown(name, arguments)


def _called_later(function: Unknown, arguments: object, copies: Copies) -> Unknown:
    """Return what a made function makes: protocol 2 gives words to a class by functools.partial."""
    made = Unknown("?", arguments)
    state = function.state
    if function.name == "functools.partial" and isinstance(state, tuple) and len(state) == 4:
        copies(len(state[2]) if isinstance(state[2], dict) else 0)
        made.parts = (state[1], arguments)
        update(made.entries, [part for pair in _items(state[2]) for part in pair])
    else:
        made.listed.append(function)
    return made


def _items(value: object) -> list[tuple[object, object]]:
    return list(value.items()) if isinstance(value, dict) else []


def _entries(inside: object) -> Entries:
    """Return a dict made of another one, or of pairs, as protocol 0 and 1 write them."""
    made = Entries()
    if isinstance(inside, dict):
        made.update(inside)
    elif isinstance(inside, (list, tuple)):
        pairs = [pair for pair in inside if isinstance(pair, (list, tuple)) and len(pair) == 2]
        update(made, [part for pair in pairs for part in pair])
    return made


def attributes_of(state: object, copies: Copies) -> object:
    """Return what BUILD sets; of a class with slots it is a pair, without and with slots."""
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
        first = state[0] if isinstance(state[0], dict) else {}
        copies(len(first) + len(state[1]))
        return {**first, **state[1]}
    return state


def _with_attributes(name: str, made: object, state: object, copies: Copies) -> object:
    """Return a tensor with what its attributes hold, as `main_grad` of Megatron's parameters."""
    state = attributes_of(state, copies)
    copies(len(state) if isinstance(state, dict) else 0)
    if name == _FROM_TYPE and isinstance(made, Unknown):
        made.state = state
        if isinstance(state, dict) and "_local_tensor" in state:  # a DTensor
            return state["_local_tensor"]
        return made
    if not isinstance(state, dict):
        return made
    # Empty so far: of a tensor that is an attribute of itself it is filled afterwards.
    if state and not any(isinstance(value, _MAY_HOLD) for value in state.values()):
        return made
    both = Unknown(name, made)
    both.state = state
    return both


def _in_parts(name: str, parts: tuple[Any, ...]) -> object:
    """Return the tensors that one is made of, by what they are to it."""
    if name == _QUANTIZED and len(parts) > 4:
        scales = parts[4][1] if isinstance(parts[4], tuple) and len(parts[4]) > 1 else None
        return {"int_repr": _tensor(name, parts), "scales": scales}
    if name in _SPARSE and len(parts) > 1 and isinstance(parts[1], tuple):
        tensors = [
            part for part in parts[1][:_MOST_DIMENSIONS] if isinstance(part, (Tensor, Unknown))
        ]
        return dict(zip(_SPARSE_PARTS.get(len(tensors), ()), tensors, strict=False))
    return parts


def _tensor(name: str, parts: tuple[Any, ...]) -> Tensor | None:
    storage, offset, shape, strides = parts[:4]
    if not isinstance(storage, Storage) or type(offset) is not int or offset >= 1 << 62:
        return None
    if not isinstance(shape, (tuple, list)) or not isinstance(strides, (tuple, list)):
        return None
    if max(len(shape), len(strides)) > _MOST_DIMENSIONS:
        return None
    sizes = [*shape, *strides]
    if len(shape) != len(strides) or not all(type(n) is int and n < 1 << 62 for n in sizes):
        return None
    dtype = storage.dtype
    if name.endswith("_v3") and len(parts) > 6 and isinstance(parts[6], Global):
        dtype = parts[6].name.removeprefix("torch.")
    return Tensor(storage, dtype, storage.begin + offset, tuple(shape), tuple(strides))
