"""Calls in a child of ours that may end badly (`postmortem.readers.child`): what comes back.

One after the other by `run`, or side by side: make several `Running` and ask each for its result.
"""

from __future__ import annotations

import io
import os
import pickle
import select
import time
from collections.abc import Callable
from mmap import mmap
from typing import Any, Generic, NoReturn, TypeVar

from postmortem import underway
from postmortem.errors import EvidenceError
from postmortem.facts.source import Problem
from postmortem.readers.child import MOST_MEMORY, Limits, fork

T = TypeVar("T")

_LOOK_SECONDS = 0.25
_CHUNK = 1 << 20
_LARGEST_ANSWER = 1 << 30
_BUILTINS = ("set", "frozenset", "complex", "bytearray", "range", "slice")


class Running(Generic[T]):
    """A call in a child, side by side with what its parent does meanwhile."""

    def __init__(
        self,
        function: Callable[..., T],
        *args: object,
        where: str,
        memory: int | None = MOST_MEMORY,
        seconds: float | None = None,
    ) -> None:
        """`memory` in bytes; `seconds` on the clock; `where` is what a Problem names."""
        self._where = where
        self._seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._heard = bytearray()
        self._over = False
        self._page = mmap(-1, underway.PAGE_BYTES)
        self._pipe, end = os.pipe()
        try:
            child = fork(Limits(memory_bytes=memory, cpu_seconds=seconds), self._page)
        except BaseException:
            os.close(end)
            self._close()
            raise
        if child is None:
            os.close(self._pipe)
            _answer(end, function, args)
        os.close(end)
        self._child = child

    def fileno(self) -> int:
        """Return the descriptor that can be read when there is something for `listen`."""
        return self._pipe

    def listen(self) -> bool:
        """Take what the child says; return whether nothing more is to come."""
        if not self._over:
            data = os.read(self._pipe, _CHUNK)
            self._heard += data
            self._over = not data or len(self._heard) > _LARGEST_ANSWER
        return self._over

    def result(self) -> T | Problem:
        """Wait for the result; a Problem says what became of a child that gave none."""
        try:
            while not self._over:
                if self._deadline is not None and time.monotonic() > self._deadline:
                    return self._problem(f"took more than {self._seconds:g} s to read")
                if select.select([self._pipe], [], [], _LOOK_SECONDS)[0]:
                    self.listen()
                elif (ending := self._child.look()) is not None and ending.why is not None:
                    return self._problem(ending.why, ending.path)
            return self._answered()
        finally:
            self.end()

    def end(self) -> None:
        """End the child; safe to call twice."""
        if not self._page.closed:
            self._child.kill()
            self._close()

    def _close(self) -> None:
        os.close(self._pipe)
        self._page.close()

    def _answered(self) -> T | Problem:
        if len(self._heard) > _LARGEST_ANSWER:
            return self._problem(f"says more than {_LARGEST_ANSWER >> 30} GiB of itself")
        try:
            kind, value = _Careful(io.BytesIO(self._heard)).load()
        except Exception:  # cut, or made up by a child that evidence has taken over
            return self._problem(self._last_words())
        if kind == "result":
            result: T = value
            return result
        where, what, remedy = (None if one is None else str(one) for one in value)
        return Problem(where or self._where, what or "", remedy)

    def _last_words(self) -> str:
        end = time.monotonic() + 1.0
        while (ending := self._child.look()) is None and time.monotonic() < end:
            time.sleep(0.002)
        words = ending.why if ending is not None else None
        return words or "ended the process that read it"

    def _problem(self, what: str, path: str | None = None) -> Problem:
        at = path or self._child.page.path
        if at is not None and at != self._where:
            what += f" (at {at})"
        return Problem(self._where, what)


def run(
    function: Callable[..., T],
    *args: object,
    where: str,
    memory: int | None = MOST_MEMORY,
    seconds: float | None = None,
) -> T | Problem:
    """Return what a function returns, called in a child of its own; a Problem if it gives nothing.

    The result is made of facts and plain values. An EvidenceError is the Problem that it tells of.
    """
    return Running(function, *args, where=where, memory=memory, seconds=seconds).result()


def _answer(pipe: int, function: Callable[..., object], args: tuple[object, ...]) -> NoReturn:
    code = 1
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # who reads them must not wait for a child that cannot be killed
        os.dup2(nowhere, number)
    try:
        try:
            answer: tuple[str, object] = ("result", function(*args))
        except EvidenceError as error:
            answer = ("problem", (error.where, error.what, error.hint))
        except MemoryError:
            underway.out_of_memory()
            os._exit(1)
        except Exception as error:
            answer = ("problem", (None, f"unexpected {type(error).__name__}: {error}"[:300], None))
        view = memoryview(pickle.dumps(answer, protocol=5))
        while view:
            view = view[os.write(pipe, view) :]
        code = 0
    except MemoryError:
        underway.out_of_memory()
    finally:
        os._exit(code)


class _Careful(pickle.Unpickler):
    """Makes plain values and classes of ours, and calls nothing else that a child may name."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "builtins" and name in _BUILTINS:
            return super().find_class(module, name)
        if module.startswith("postmortem.facts.") and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no fact")
