"""docs/why-no-library.md tells how much there is of what is ours: rounded, and still true."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "why-no-library.md").read_text(encoding="utf-8")
ROWS = [line.split(" | ")[:2] for line in PAGE.splitlines() if "`csrc/" in line and "|" in line]


def lines_of(place: str) -> int:
    """Return the lines of a folder's sources, of a file, or of a header with its source."""
    path = ROOT / place
    found = [path] if path.suffix else [*path.glob("*.cpp"), *path.glob("*.h")]
    found = found or [path.with_suffix(".cpp"), path.with_suffix(".h")]
    return sum(one.read_text(encoding="utf-8").count("\n") for one in found)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("| ")[:20])
def test_figures_are_right_within_a_tenth(row: list[str]) -> None:
    places = [place for place in re.findall(r"`([\w/.]+)`", row[0]) if "/" in place]
    places = [place if place.startswith("csrc/") else f"csrc/{place}" for place in places]
    told = [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", row[1])]
    counted = [lines_of(place) for place in places]
    for said, there in zip(told, counted if len(told) > 1 else [sum(counted)], strict=True):
        assert there == pytest.approx(said, rel=0.1)
