"""Work that goes on in a thread while the analysis waits for something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """A call in a thread of its own; `result` waits for it and raises what it raised."""

    def __init__(self, function: Callable[[], T]) -> None:
        import threading  # 1.6 ms, and most reports need no thread

        self._function = function
        self._result: T
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:  # it belongs to whoever asks for the result
            self._error = error

    def result(self) -> T:
        """Return what the function returned."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._result
