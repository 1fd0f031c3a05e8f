"""Work that goes on in a thread while the analysis waits for something else.

Made with `_thread`: a report on a core needs nothing else of `threading`, which takes 1.5 ms to
import.
"""

import _thread
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")


class Background(Generic[T]):
    """A call in a thread of its own; `result` waits for it and raises what it raised."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._result: T
        self._error: BaseException | None = None
        self._running = _thread.allocate_lock()
        self._running.acquire()
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:  # it belongs to whoever asks for the result
            self._error = error
        finally:
            self._running.release()

    def result(self) -> T:
        """Return what the function returned."""
        with self._running:
            pass
        if self._error is not None:
            raise self._error
        return self._result


def side_by_side(work: Callable[[S], T], items: Sequence[S], *, most: int) -> Iterator[T]:
    """Yield what comes of each item, in their order; at most so many at a time, one for a core."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(max(1, min(most, len(os.sched_getaffinity(0)), len(items))))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
