"""Tests of a part of the package are found where the part is; analyses stay small."""

from pathlib import Path

import pytest

UNIT = Path(__file__).parent
ROOT = UNIT.parents[1]
_EXTENSION = "native"
"""What ``postmortem._native`` gives, whose parts lie in csrc/."""


def folders(below: Path) -> set[str]:
    """Return the folders under another, by their paths in it."""
    found = {path for path in below.rglob("*") if path.is_dir()}
    hidden = {"__pycache__", "golden"}
    return {str(path.relative_to(below)) for path in found if not hidden & set(path.parts)}


@pytest.mark.parametrize("folder", sorted(folders(UNIT)))
def test_each_folder_of_tests_is_one_of_the_source(folder: str) -> None:
    source = folders(ROOT / "src" / "postmortem") | folders(ROOT / "csrc") | {_EXTENSION}
    assert folder in source or not list((UNIT / folder).glob("test_*.py"))


def test_analyses_read_diagnose_and_hand_over() -> None:
    files = (ROOT / "src" / "postmortem" / "analyses").glob("*.py")
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: count for name, count in lines.items() if count > 80} == {}
