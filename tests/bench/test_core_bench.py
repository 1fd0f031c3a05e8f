"""The benchmark runs: one tiny core, one round."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from builders import elf

BENCH = Path(__file__).resolve().parents[2] / "bench/core.py"


@pytest.mark.slow
def test_one_tiny_core(tmp_path):
    core = tmp_path / "tiny.core"
    core.write_bytes(elf.CoreBuilder().thread(1, 11).process(1).build())
    done = subprocess.run(
        [sys.executable, BENCH, core, "--rounds", "1", "--name", "t", "--results", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "t.json").read_text())
    assert result["bytes"] == {"tiny.core": core.stat().st_size}
    assert len(result["load_average"]) == 3
    assert (result["mib_read"]["tiny.core"] or 0) * 2**20 < core.stat().st_size + 4096
    assert {row["tool"] for row in result["rows"]} == {
        *("postmortem native", "postmortem, facts alone", "postmortem, text"),
        "postmortem with gdb",
        *("gdb bt", "eu-stack", "pystack"),
    }
    for row in result["rows"]:
        # Each tool was measured, or its absence is said.
        assert (row["wall_ms"] or 0) > 0 or row["note"] == "not installed"
        assert f"| tiny.core | {row['tool']} |" in done.stdout
    assert str(tmp_path) not in json.dumps(result)
