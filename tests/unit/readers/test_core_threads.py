"""A thread that runs code in several interpreters: all its frames, the innermost first."""

from typing import Any, cast

import pytest

from postmortem.readers.core import _python_threads


def row(tid: int | None, *functions: str, gil: bool = False) -> dict[str, Any]:
    return {"tid": tid, "holds_gil": gil, "frames": [{"function": one} for one in functions]}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(1, "inner"), row(1, "runs", "main")], ["inner", "runs", "main"]),
        ([row(1, "runs", "main"), row(1, "inner", gil=True)], ["inner", "runs", "main"]),
        ([row(1), row(1, "main")], ["main"]),
        ([row(1, "main"), row(1), row(2, "other"), row(None, "left")], ["main"]),
    ],
)
def test_frames_of_all_interpreters(rows: list[dict[str, Any]], expected: list[str]) -> None:
    found = _python_threads(cast(Any, {"python": {"threads": rows}}))
    assert [frame["function"] for frame in found[1]["frames"]] == expected
    assert None not in found
