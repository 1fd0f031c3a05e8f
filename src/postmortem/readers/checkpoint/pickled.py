"""What a pickle of torch.save() describes, without running any of it.

The opcodes are followed on a stack of plain values. A class or function that the pickle names is
never imported: calls of the few that rebuild tensors are understood, all others become an
`Unknown`. Opcodes: Lib/pickletools.py.
"""

import pickletools
import warnings
from collections.abc import Callable
from typing import Any, BinaryIO

from postmortem.readers.checkpoint.objects import Entries, Global, PickleError, Storage, Unknown
from postmortem.readers.checkpoint.rebuilding import (
    attributes_of,
    called,
    extend,
    storage_of,
    update,
)

_MOST_OPCODES = 20_000_000
_MOST_COPIED = 50_000_000
"""Elements that calls copy from one container into another, in all."""
_LONGEST_NAME = 4096
_MARK = object()


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
        MemoryError,
    ) as error:
        raise PickleError(f"it is damaged ({type(error).__name__}: {str(error)[:80]})") from None
    raise PickleError(f"it has more than {_MOST_OPCODES:,} opcodes")


class _Machine:
    """The stack and the memo of an unpickler."""

    def __init__(self, storages: dict[str, Storage]) -> None:
        self._storages = storages
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._copied = 0

    def copies(self, count: int) -> None:
        """Account for elements that are copied: a few bytes of a pickle ask for it each time."""
        self._copied += count
        if self._copied > _MOST_COPIED:
            raise PickleError("it makes containers of containers without end")

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
        parts = (module, name)
        if not all(isinstance(part, str) and len(part) <= _LONGEST_NAME for part in parts):
            raise PickleError("a class is named by something else than a name")
        self._stack.append(Global(f"{module}.{name}"))

    def _tuple_of(self, count: int) -> None:
        items = [self.pop() for _ in range(count)]
        self._stack.append(tuple(reversed(items)))

    def _append(self, _: Any) -> None:
        value = self.pop()
        extend(self._stack[-1], [value])

    def _appends(self, _: Any) -> None:
        values = self._to_mark()
        extend(self._stack[-1], values)

    def _setitem(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        update(self._stack[-1], [key, value])

    def _setitems(self, _: Any) -> None:
        pairs = self._to_mark()
        update(self._stack[-1], pairs)

    def _dict(self, _: Any) -> None:
        made: dict[Any, Any] = {}
        update(made, self._to_mark())
        self._stack.append(made)

    def _reduce(self, _: Any) -> None:
        arguments, function = self.pop(), self.pop()
        self._stack.append(called(function, arguments, self.copies))

    def _newobj_ex(self, _: Any) -> None:
        words, arguments, function = self.pop(), self.pop(), self.pop()
        made = called(function, arguments, self.copies)
        if isinstance(made, Unknown) and isinstance(words, dict):
            self.copies(len(words))
            made.entries.update(words)
        self._stack.append(made)

    def _build(self, _: Any) -> None:
        state = self.pop()
        target = self._stack[-1]
        if isinstance(target, (Unknown, Entries)):
            target.state = attributes_of(state, self.copies)

    def _persistent(self, _: Any) -> None:
        value = storage_of(self.pop())
        if isinstance(value, Storage):
            self._storages[value.key] = value
        self._stack.append(value)

    def _inst(self, argument: Any) -> None:
        items = self._to_mark()
        self._stack.append(
            called(Global(str(argument).replace(" ", ".", 1)), tuple(items), self.copies)
        )

    def _object(self, _: Any) -> None:
        items = self._to_mark()
        self._stack.append(called(items[0], tuple(items[1:]), self.copies))


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
