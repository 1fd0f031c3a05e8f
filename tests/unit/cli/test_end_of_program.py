"""How the program ends: at once where nobody waits for it, else as any other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from builders.commands import execute

_NOTICE = (
    "import atexit, os, sys\n"
    "class Late:\n"
    "    def __del__(self, write=os.write): write(2, b'torn down\\n')\n"
    "late = Late()\n"
    "atexit.register(sys.stderr.write, 'atexit ran\\n')\n"
)
_PROGRAM = (
    "import sys\nsys.argv[1:] = ['--version']\nfrom postmortem.cli.main import run_as_program\n"
)


def ended(code: str, *options: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(_NOTICE + _PROGRAM + code)
    return execute([sys.executable, *options, str(program)], stdin=subprocess.DEVNULL)


def test_a_program_of_its_own_ends_without_tear_down(tmp_path: Path) -> None:
    done = ended("run_as_program()", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("postmortem ")
    assert done.stderr == "atexit ran\n"


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("def call(): run_as_program()\ncall()", ()),
        ("sys.setprofile(lambda *_: None)\nrun_as_program()", ()),
        ("sys.settrace(lambda *_: None)\nrun_as_program()", ()),
        ("run_as_program()", ("-i",)),
        ("run_as_program()", ("-m", "trace", "--listfuncs")),
        ("run_as_program()", ("-m", "cProfile")),
    ],
    ids=["called", "profiled", "traced", "interactive", "trace", "cProfile"],
)
def test_a_program_that_others_wait_for_ends_as_usual(
    code: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    done = ended(code, *options, folder=tmp_path)
    assert "atexit ran\n" in done.stderr
    assert "torn down\n" in done.stderr


def test_a_thread_that_is_no_daemon_is_waited_for(tmp_path: Path) -> None:
    code = (
        "import threading\n"
        "go = threading.Event()\n"
        "thread = threading.Thread(target=lambda: (go.wait(), print('thread done')))\n"
        "thread.start()\n"
        "threading._register_atexit(go.set)\n"
        "run_as_program()"
    )
    assert "thread done\n" in ended(code, folder=tmp_path).stdout


@pytest.mark.parametrize("number", ["1", "3"], ids=["found", "not-analysed"])
def test_exit_codes_and_output_are_whole(number: str, tmp_path: Path) -> None:
    code = (
        "import postmortem.cli.main as main\n"
        f"main.main = lambda **_: sys.stdout.write('x' * 100_000) and {number}\n"
        "run_as_program()"
    )
    done = ended(code, folder=tmp_path)
    assert done.returncode == int(number)
    assert done.stdout == "x" * 100_000


def test_a_module_run_by_its_name_ends_so_too() -> None:
    done = execute(
        [sys.executable, "-X", "importtime", "-m", "postmortem", "--version"], env={**os.environ}
    )
    assert done.returncode == 0
    assert done.stdout.startswith("postmortem ")
