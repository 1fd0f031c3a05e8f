"""The man pages in docs/man are those of the parsers."""

import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_pages_are_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_man.py"))["pages"]()
    kept = {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("docs/man/*.1")}
    assert kept == made, "run python docs/make_man.py"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_takes_them() -> None:
    for path in sorted(ROOT.glob("docs/man/*.1")):
        command = ["groff", "-man", "-Tutf8", "-ww", "-z", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), path.name
