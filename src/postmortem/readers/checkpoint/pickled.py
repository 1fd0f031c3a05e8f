"""What a pickle of torch.save() describes, without running any of it.

The opcodes are followed on a stack of plain values. A class or function that the pickle names is
never imported: calls of the few that rebuild tensors are understood, all others become an
`Unknown`. Opcodes: Lib/pickletools.py; how tensors are rebuilt: torch/_utils.py.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Callable
from typing import Any, BinaryIO

from postmortem.records import record

_MOST_OPCODES = 20_000_000
_MARK = object()


class PickleError(Exception):
    """The pickle cannot be followed to its end."""


@record
class Global:
    """A class or function by name."""

    name: str


@record
class Storage:
    """The memory behind tensors: a record of the archive."""

    key: str
    dtype: str | None
    """None for bytes without a type of their own; tensors on it say theirs."""
    numel: int
    begin: int = 0
    """Of a view into it, as PyTorch before 0.4 saved them: in elements."""


@record
class Tensor:
    """A view into a storage; sizes and strides in elements."""

    storage: Storage
    dtype: str | None
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Unknown:
    """Something that only running the pickle would make; what is inside can still be looked at."""

    def __init__(self, name: str, parts: object = ()) -> None:
        self.name = name
        self.parts = parts
        self.state: object = None

    def __repr__(self) -> str:
        return f"<{self.name}>"


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
_REBUILT_IN_PLACE = frozenset(
    {
        "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_parameter_with_state",
        "torch._tensor._rebuild_from_type_v2",
    }
)
_QUANTIZED = "torch._utils._rebuild_qtensor"
_SPARSE = ("torch._utils._rebuild_sparse_tensor", "torch._utils._rebuild_sparse_csr_tensor")
_IN_PARTS = frozenset({_QUANTIZED, *_SPARSE})
_SPARSE_PARTS = {
    2: ("indices", "values"),
    3: ("compressed_indices", "plain_indices", "values"),
}
_CONTAINERS = {
    "collections.OrderedDict": dict,
    "builtins.dict": dict,
    "collections.defaultdict": dict,
    "builtins.list": list,
    "builtins.set": list,
    "builtins.frozenset": list,
    "builtins.tuple": tuple,
    "torch.Size": tuple,
}


def load(stream: BinaryIO, storages: dict[str, Storage] | None = None) -> object:
    """Follow one pickle and return what it describes; raises PickleError.

    `storages` is given all that the pickle names, by key.
    """
    with warnings.catch_warnings():
        # pickletools decodes texts of protocol 0 with escapes of which Python would warn
        warnings.simplefilter("ignore", DeprecationWarning)
        return _followed(stream, {} if storages is None else storages)


def _followed(stream: BinaryIO, storages: dict[str, Storage]) -> object:
    machine = _Machine(storages)
    read = stream.read
    try:
        for _ in range(_MOST_OPCODES):
            code = read(1)
            if code == b".":
                return machine.pop()
            if not code:
                raise PickleError("it has no end")
            take, act = _STEPS.get(code, _NO_STEP)
            act(machine, take(stream) if take is not None else code)
    except PickleError:
        raise
    except (
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise PickleError(f"it is damaged ({type(error).__name__}: {str(error)[:80]})") from None
    raise PickleError(f"it has more than {_MOST_OPCODES:,} opcodes")


class _Machine:
    """The stack and the memo of an unpickler."""

    def __init__(self, storages: dict[str, Storage]) -> None:
        self._storages = storages
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise PickleError("a mark stands where a value should")
        return value

    def _to_mark(self) -> list[Any]:
        stack = self._stack
        for at in range(len(stack) - 1, -1, -1):
            if stack[at] is _MARK:
                items = stack[at + 1 :]
                del stack[at:]
                return items
        raise PickleError("a mark is missing")

    def _pop(self, _: Any) -> None:
        self._stack.pop()

    def _pop_mark(self, _: Any) -> None:
        self._to_mark()

    def _memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _put(self, key: Any) -> None:
        self._memo[int(key)] = self._stack[-1]

    def _get(self, key: Any) -> None:
        self._stack.append(self._memo[int(key)])

    def _global(self, argument: Any) -> None:
        self._stack.append(Global(str(argument).replace(" ", ".", 1)))

    def _stack_global(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        self._stack.append(Global(f"{module}.{name}"))

    def _tuple_of(self, count: int) -> None:
        items = [self.pop() for _ in range(count)]
        self._stack.append(tuple(reversed(items)))

    def _append(self, _: Any) -> None:
        value = self.pop()
        _extend(self._stack[-1], [value])

    def _appends(self, _: Any) -> None:
        values = self._to_mark()
        _extend(self._stack[-1], values)

    def _setitem(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        _update(self._stack[-1], [key, value])

    def _setitems(self, _: Any) -> None:
        pairs = self._to_mark()
        _update(self._stack[-1], pairs)

    def _dict(self, _: Any) -> None:
        made: dict[Any, Any] = {}
        _update(made, self._to_mark())
        self._stack.append(made)

    def _reduce(self, _: Any) -> None:
        arguments, function = self.pop(), self.pop()
        self._stack.append(_called(function, arguments))

    def _newobj_ex(self, _: Any) -> None:
        words, arguments, function = self.pop(), self.pop(), self.pop()
        made = _called(function, arguments)
        if isinstance(made, Unknown) and words:
            made.state = words
        self._stack.append(made)

    def _build(self, _: Any) -> None:
        state = self.pop()
        if isinstance(self._stack[-1], Unknown):
            self._stack[-1].state = _attributes(state)

    def _persistent(self, _: Any) -> None:
        value = _storage(self.pop())
        if isinstance(value, Storage):
            self._storages[value.key] = value
        self._stack.append(value)

    def _inst(self, argument: Any) -> None:
        items = self._to_mark()
        self._stack.append(_called(Global(str(argument).replace(" ", ".", 1)), tuple(items)))

    def _object(self, _: Any) -> None:
        items = self._to_mark()
        self._stack.append(_called(items[0], tuple(items[1:])))


_NOTHING = frozenset({"PROTO", "FRAME", "READONLY_BUFFER"})
_PUSHES_ARGUMENT = frozenset(
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING "
    "UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 "
    "BYTEARRAY8".split()
)
_Action = Callable[[_Machine, Any], None]
_ACTIONS: dict[str, _Action] = {
    "NONE": lambda m, _: m._stack.append(None),
    "NEWTRUE": lambda m, _: m._stack.append(True),
    "NEWFALSE": lambda m, _: m._stack.append(False),
    "MARK": lambda m, _: m._stack.append(_MARK),
    "POP": _Machine._pop,
    "POP_MARK": _Machine._pop_mark,
    "DUP": lambda m, _: m._stack.append(m._stack[-1]),
    "EMPTY_TUPLE": lambda m, _: m._stack.append(()),
    "EMPTY_LIST": lambda m, _: m._stack.append([]),
    "EMPTY_SET": lambda m, _: m._stack.append([]),
    "EMPTY_DICT": lambda m, _: m._stack.append({}),
    "TUPLE": lambda m, _: m._stack.append(tuple(m._to_mark())),
    "LIST": lambda m, _: m._stack.append(m._to_mark()),
    "FROZENSET": lambda m, _: m._stack.append(m._to_mark()),
    "TUPLE1": lambda m, _: m._tuple_of(1),
    "TUPLE2": lambda m, _: m._tuple_of(2),
    "TUPLE3": lambda m, _: m._tuple_of(3),
    "DICT": _Machine._dict,
    "APPEND": _Machine._append,
    "APPENDS": _Machine._appends,
    "ADDITEMS": _Machine._appends,
    "SETITEM": _Machine._setitem,
    "SETITEMS": _Machine._setitems,
    "MEMOIZE": _Machine._memoize,
    "PUT": _Machine._put,
    "BINPUT": _Machine._put,
    "LONG_BINPUT": _Machine._put,
    "GET": _Machine._get,
    "BINGET": _Machine._get,
    "LONG_BINGET": _Machine._get,
    "GLOBAL": _Machine._global,
    "STACK_GLOBAL": _Machine._stack_global,
    "REDUCE": _Machine._reduce,
    "NEWOBJ": _Machine._reduce,
    "NEWOBJ_EX": _Machine._newobj_ex,
    "BUILD": _Machine._build,
    "BINPERSID": _Machine._persistent,
    "INST": _Machine._inst,
    "OBJ": _Machine._object,
}


def _push(machine: _Machine, argument: Any) -> None:
    machine._stack.append(argument)


def _useless(machine: _Machine, code: Any) -> None:
    known = {opcode.code.encode("latin-1"): opcode.name for opcode in pickletools.opcodes}
    name = known.get(code, repr(code))
    raise PickleError(f"the opcode {name} is of no use in a checkpoint")


def _byte(stream: BinaryIO) -> int:
    return stream.read(1)[0]


def _four_bytes(stream: BinaryIO) -> int:
    data = stream.read(4)
    if len(data) < 4:
        raise ValueError("it ends within an opcode")
    return int.from_bytes(data, "little")


_NO_STEP: tuple[None, _Action] = (None, _useless)
_TAKEN_FASTER = {
    "BININT1": _byte,
    "BINPUT": _byte,
    "BINGET": _byte,
    "LONG_BINPUT": _four_bytes,
    "LONG_BINGET": _four_bytes,
}
"""The most frequent; pickletools takes twice as long for them."""


def _steps() -> dict[bytes, tuple[Callable[[BinaryIO], Any] | None, _Action]]:
    """Return, for each opcode that is followed, what takes its argument and what carries it out."""
    found: dict[bytes, tuple[Callable[[BinaryIO], Any] | None, _Action]] = {}
    for opcode in pickletools.opcodes:
        name = opcode.name
        action = _ACTIONS.get(name)
        if action is None and name in _PUSHES_ARGUMENT:
            action = _push
        if action is None and name in _NOTHING:
            action = _nothing
        if action is not None:
            reader = opcode.arg.reader if opcode.arg is not None else None
            take = _TAKEN_FASTER.get(name, reader)
            found[opcode.code.encode("latin-1")] = (take, action)
    return found


def _nothing(machine: _Machine, argument: Any) -> None:
    """For what only says how the pickle is written."""


_STEPS = _steps()


def _extend(target: object, values: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(values)
    elif isinstance(target, Unknown):
        target.state = [target.state, values]


def _update(target: object, pairs: list[Any]) -> None:
    if len(pairs) % 2:
        raise PickleError("a key has no value")
    if isinstance(target, Unknown):
        target.state = [target.state, pairs]
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


def _storage(value: object) -> object:
    """Return the storage that a persistent ID names: ('storage', type, key, location, numel)."""
    if not isinstance(value, tuple) or len(value) < 5 or value[0] != "storage":
        return Unknown("persistent ID", value)
    _, kind, key, _, numel = value[:5]
    name = kind.name.rpartition(".")[2] if isinstance(kind, Global) else ""
    if not isinstance(numel, int):
        raise PickleError("the size of a storage is no number")
    begin = 0
    if len(value) > 5 and isinstance(value[5], tuple) and len(value[5]) == 3:  # key, offset, size
        begin = value[5][1]
        if type(begin) is not int or not 0 <= begin < 1 << 62:
            raise PickleError("the offset of a storage is no number")
    return Storage(str(key), _STORAGES.get(name), numel, begin)


def _called(function: object, arguments: object) -> object:
    name = function.name if isinstance(function, Global) else "?"
    parts = arguments if isinstance(arguments, tuple) else ()
    if name.startswith("torch._utils._rebuild_tensor") and len(parts) >= 4:
        tensor = _tensor(name, parts)
        if tensor is not None:
            return tensor
    if name in _REBUILT_IN_PLACE and parts:
        if name == "torch._tensor._rebuild_from_type_v2" and len(parts) >= 3:
            made = _called(parts[0], parts[2])
            if isinstance(made, Unknown) and len(parts) > 3:
                made.state = _attributes(parts[3])
                if isinstance(made.state, dict) and "_local_tensor" in made.state:  # a DTensor
                    return made.state["_local_tensor"]
            return made
        return parts[0]
    if name in _IN_PARTS:
        return Unknown(name, _in_parts(name, parts))
    container = _CONTAINERS.get(name)
    if container is not None:
        inside = parts[0] if parts else ()
        if container is dict:
            return dict(inside) if isinstance(inside, dict) else {}
        return container(inside) if isinstance(inside, (list, tuple)) else container()
    return Unknown(name, arguments)


def _attributes(state: object) -> object:
    """Return what BUILD sets; of a class with slots it is a pair, without and with slots."""
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
        return {**(state[0] if isinstance(state[0], dict) else {}), **state[1]}
    return state


def _in_parts(name: str, parts: tuple[Any, ...]) -> object:
    """Return the tensors that one is made of, by what they are to it."""
    if name == _QUANTIZED and len(parts) > 4:
        scales = parts[4][1] if isinstance(parts[4], tuple) and len(parts[4]) > 1 else None
        return {"int_repr": _tensor(name, parts), "scales": scales}
    if name in _SPARSE and len(parts) > 1 and isinstance(parts[1], tuple):
        tensors = [part for part in parts[1] if isinstance(part, Tensor)]
        return dict(zip(_SPARSE_PARTS.get(len(tensors), ()), tensors, strict=False))
    return parts


def _tensor(name: str, parts: tuple[Any, ...]) -> Tensor | None:
    storage, offset, shape, strides = parts[:4]
    if not isinstance(storage, Storage) or type(offset) is not int or offset >= 1 << 62:
        return None
    if not isinstance(shape, (tuple, list)) or not isinstance(strides, (tuple, list)):
        return None
    sizes = [*shape, *strides]
    if len(shape) != len(strides) or not all(type(n) is int and n < 1 << 62 for n in sizes):
        return None
    dtype = storage.dtype
    if name.endswith("_v3") and len(parts) > 6 and isinstance(parts[6], Global):
        dtype = parts[6].name.removeprefix("torch.")
    return Tensor(storage, dtype, storage.begin + offset, tuple(shape), tuple(strides))
