"""Objects of the report out of facts."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from postmortem.report import contract


class Row(contract.Shape):
    first: int
    second: int


def test_threads_that_need_a_shape_at_once_all_get_it_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many cores are read by threads: each report is made while others are, from the first on."""
    made: list[dict[str, object]] = []
    begun = threading.Event()

    def slowly(shape: type) -> Iterator[tuple[type, dict[str, str]]]:
        """Yield one field, let another thread make an object, and yield the other field."""
        yield shape, {"first": "int"}
        if not begun.is_set():
            begun.set()
            other = threading.Thread(target=lambda: made.append(fill()))
            other.start()
            other.join()
        yield shape, {"second": "int"}

    def fill() -> dict[str, object]:
        return contract.fill(Row, first=1, second=2)

    monkeypatch.setattr(contract, "own_fields", slowly)
    made.append(fill())
    assert made == [{"first": 1, "second": 2}] * 2
