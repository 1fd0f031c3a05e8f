"""``%load_ext postmortem`` in IPython: a cell's memory, and a kernel that died."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("IPython")

SHELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "postmortem")
for cell in sys.stdin.read().split("----\\n"):
    shell.run_cell(cell)
"""


def kernel(folder: Path, *cells: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(mode=0o700, exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", SHELL, "-f", "kernel-abc.json"],
        input="----\n".join(cells),
        env=os.environ | {"POSTMORTEM_ATTACH_DIR": str(folder), "IPYTHONDIR": str(folder / "ip")},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_the_memory_of_a_cell(tmp_path: Path) -> None:
    cell = "%%memory\nimport time\nkept = b'x' * (200 << 20)\ntime.sleep(0.3)\nother = 1\n"
    done = kernel(tmp_path / "box", cell)
    assert "(+20" in done.stdout, done.stdout + done.stderr
    gone = kernel(tmp_path / "box", "%%memory\nkept = b'x' * (200 << 20)\ndel kept\n")
    assert "(+20" not in gone.stdout


def test_a_line_that_takes_long_is_named(tmp_path: Path) -> None:
    cell = (
        "%%memory\nimport time\nkept = []\nfor _ in range(40):\n"
        "    time.sleep(0.03); kept.append(b'x' * (5 << 20))\n"
    )
    done = kernel(tmp_path / "box", cell)
    assert "at line 4: time.sleep(0.03); kept.append" in done.stdout, done.stdout + done.stderr


def test_a_kernel_that_was_killed(tmp_path: Path) -> None:
    box = tmp_path / "box"
    cell = "import os, time\ntime.sleep(1.5)\nos.kill(os.getpid(), 9)\n"
    assert kernel(box, "x = 1", cell).returncode == -9
    done = kernel(box, "%postmortem")
    assert "os.kill(os.getpid(), 9)" in done.stdout, done.stdout + done.stderr
    assert "it held " in done.stdout
    assert "killed (SIGKILL)" in done.stdout
    assert "likely killed" not in done.stdout


def test_a_kernel_that_crashed(tmp_path: Path) -> None:
    box = tmp_path / "box"
    assert kernel(box, "import ctypes\nctypes.string_at(8)\n").returncode == -11
    done = kernel(box, "%postmortem")
    assert "certain: " in done.stdout
    assert "Segmentation fault" in done.stdout
    assert "string_at" in done.stdout


def test_a_kernel_that_was_shut_down(tmp_path: Path) -> None:
    box = tmp_path / "box"
    assert "no kernel " in kernel(box, "%postmortem").stdout
    assert "no cell " in kernel(box, "%postmortem").stdout
