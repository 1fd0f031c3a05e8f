"""The hooks that stand on a watched model: they stay behind when it is copied or saved."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from postmortem.monitor.errors import NumericsError
from postmortem.monitor.graph_rows import record_output

_NO_SCRIPT = (
    "a hook of NumericsMonitor has no name: torch.jit.script cannot compile a model that is "
    "watched, or a copy of one; detach() the monitor before, and attach() it again afterwards (of "
    "a copy, clear _forward_hooks and _forward_pre_hooks of its modules)"
)

_is_compiling = torch.compiler.is_compiling
_is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", lambda: False)


class _Staying:
    """A hook of one model: a copy of the model (for averages, by ``deepcopy``) is not watched.

    A pickle holds a callable of the standard library in its place, which does nothing: whoever
    loads the model need not have this package.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "__name__":  # torch.jit.script asks for it, to compile the hook by its source
            raise AttributeError(_NO_SCRIPT, name=name, obj=self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __deepcopy__(self, memo: Any) -> Callable[..., None]:
        return _Left()

    def __reduce__(self) -> Any:
        return getattr, (nullcontext(), "__exit__")


class CallHook(_Staying):
    """Runs after each call of one module; under Dynamo only the operator that it traces."""

    def __init__(
        self, take: Callable[..., None], name: str, is_root: bool, rows: torch.Tensor, slot: int
    ) -> None:
        self._take = take
        self._name = name
        self._is_root = is_root
        self._rows = rows
        self._slot = slot
        self.own: dict[str, Any] = {}
        """What is remembered of the module's last call."""

    def __call__(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        """Pass the call on, or record its output in compiled code."""
        if _is_compiling():
            if not _is_exporting():  # what is exported runs where nobody watches
                record_output(output, self._rows, self._slot)
            return
        try:
            self._take(self._name, self.own, self._is_root, module, args, kwargs, output)
        except NumericsError as found:  # without the frames in between, which are ours
            raise found.with_traceback(None) from None


class BatchHook(_Staying):
    """Runs before each call of the model itself."""

    def __init__(self, begin: Callable[..., None]) -> None:
        self._begin = begin

    def __call__(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Begin a batch."""
        if not _is_compiling():
            try:
                self._begin(args, kwargs)
            except NumericsError as found:  # as above; a wrapper would be made for each batch
                raise found.with_traceback(None) from None


class _Left(_Staying):
    """Stands in the place of a hook on a copy, and does nothing."""

    def __call__(self, *_: Any) -> None:
        """Take a call of the copy."""
