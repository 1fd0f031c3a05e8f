"""The table of what commands cost: one case against a wheel, and when it calls one slower."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


@pytest.mark.parametrize(
    ("ours", "wheel", "worse"),
    [
        ([1.3, 1.25, 1.2], [1.0, 1.0, 1.0], True),
        ([1.3, 1.25, 1.05], [1.0, 1.0, 1.0], False),  # the least of each was as good
        ([1.3, 1.05, 1.2], [1.0, 1.2, 1.15], False),  # a busy moment
        ([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], False),
    ],
)
def test_slower_is_a_tenth_by_both_counts(
    ours: list[float], wheel: list[float], worse: bool
) -> None:
    import table

    found = {table.OURS: ours, table.THEN: wheel, "grep": [0.5, 0.5, 0.5]}
    ratio = table.slower(found)
    assert ratio is not None
    assert (ratio > table.MOST) == worse
    assert ("SLOWER" in table.row("case", found)) == worse
    assert table.slower({table.OURS: ours}) is None


@pytest.mark.slow
def test_one_case_against_a_wheel_that_does_nothing(tmp_path: Path) -> None:
    wheel, out = tmp_path / "some.whl", tmp_path / "table.json"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("postmortem/__init__.py", "")
        archive.writestr("postmortem/__main__.py", "")
    command = [sys.executable, BENCH / "table.py", "--against", wheel, "--rounds", "1"]
    done = subprocess.run(
        [*command, "--only=--help", "--out", out], capture_output=True, text=True, timeout=100
    )
    if any("editable" in finder.__module__ for finder in sys.meta_path):
        assert done.returncode == 2  # it would compare ours with ours
        pytest.skip("an editable install is found before any wheel")
    assert done.returncode == 1, done.stderr  # to do nothing is faster
    assert "SLOWER" in done.stdout
    (machine,) = json.loads(out.read_text()).values()
    assert set(machine["ms"]["--help"]) == {"ours", "the wheel", "python"}
