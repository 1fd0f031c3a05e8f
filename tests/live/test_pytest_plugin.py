"""pytest --postmortem with workers of xdist that crash for real."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest.importorskip("xdist")
PLUGIN = "postmortem.integrations.pytest_plugin"

TESTS = """
import ctypes, os, signal
def decode_row():
    ctypes.string_at(0)
def test_crash():
    decode_row()
def test_killed():
    os.kill(os.getpid(), signal.SIGKILL)
def test_leaves():
    os._exit(7)
def test_well():
    pass
"""


def run(folder: Path, *words: str) -> str:
    (folder / "test_them.py").write_text(TESTS)
    # Where the package is installed pytest finds the plugin by itself.
    installed = any(one.value == PLUGIN for one in entry_points(group="pytest11"))
    command = [sys.executable, "-m", "pytest", *([] if installed else ["-p", PLUGIN])]
    command += ["-p", "no:cacheprovider", "-p", "no:rerunfailures", "test_them.py", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, check=False, cwd=folder
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_a_worker_that_crashes_is_explained(tmp_path: Path) -> None:
    said = run(tmp_path, "-n", "1", "--max-worker-restart", "4", "--postmortem")
    assert "SIGSEGV" in said
    assert "SIGKILL" in said
    assert " with 7" in said
    assert "in decode_row" in said  # Python's stack, and the core's card where there is a core
    assert "1 passed" in said
    left = {path.name for path in tmp_path.iterdir()} - {"test_them.py", "__pycache__"}
    assert all(name.startswith("core") for name in left)


def test_without_the_option_it_says_nothing(tmp_path: Path) -> None:
    said = run(tmp_path, "-n", "1", "-k", "leaves or well")
    assert "crashed while running" in said
    assert "postmortem:" not in said


def test_without_workers_it_does_no_harm(tmp_path: Path) -> None:
    assert "1 passed" in run(tmp_path, "--postmortem", "-k", "well")
