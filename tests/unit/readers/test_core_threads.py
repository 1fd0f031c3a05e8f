"""A thread that runs code in several interpreters: all its frames, the innermost first."""

from typing import Any, cast

import pytest

from postmortem.readers.core import _python_threads, _threads


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


@pytest.mark.parametrize(
    ("size", "gil", "states"), [(90, 0x5000, 0), (89, 0x5000, None), (90, 0, None)]
)
def test_of_a_cut_core_nobody_knows_who_holds_the_gil(
    size: int, gil: int, states: int | None
) -> None:
    python = {"threads": [], "gil": gil, "gil_holder": None, "gil_enabled": True}
    python |= {"tasks": [], "greenlets": []}
    raw = {"pid": 1, "crashed_tid": None, "slim": None, "python": python}
    raw |= {key: [] for key in ("threads", "modules", "register_names", "futex_waits")}
    raw |= {"expected_bytes": 90, "size_bytes": size}
    assert _threads(cast(Any, raw), cast(Any, None), {}).python_states == states
