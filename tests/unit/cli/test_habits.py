"""Habits of a command line: completion, pager, quiet, one line for a usage error."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import postmortem
from builders.checkpoints import floats, safetensors
from builders.commands import run_here
from builders.prose import Prose
from postmortem.cli import pager
from postmortem.cli.commands import COMMANDS


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(safetensors({"w": ("F32", [2], floats(float("nan"), 2))}))
    return path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_takes_its_completion(shell: str) -> None:
    done = run_here("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    for command in COMMANDS:
        assert command in done.stdout
    program = shutil.which(shell)
    if program is not None:
        check = subprocess.run([program, "-n"], input=done.stdout, text=True, capture_output=True)
        assert (check.returncode, check.stderr) == (0, "")


def completed(*words: str, cwd: Path = Path("/")) -> list[str]:
    script = run_here("completion", "bash").stdout
    typed = " ".join(f"'{word}'" for word in words)
    script += f"\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _postmortem\n"
    script += 'printf "%s\\n" "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash"], input=script, text=True, capture_output=True, cwd=cwd)
    return done.stdout.splitlines()


def test_bash_completes() -> None:
    assert {"core", "completion"} <= set(completed("postmortem", "co"))
    assert completed("postmortem", "core", "--engine", "") == ["auto", "native", "gdb"]
    assert "--locals" in completed("postmortem", "core", "--lo")
    assert "segv" in completed("postmortem", "demo", "")


def test_bash_completes_kinds_of_faults(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert {"disk", "kill", "data"} <= set(completed("postmortem", "emulate", "", cwd=tmp_path))
    assert completed("postmortem", "emulate", "disk", "--lea") == ["--leave"]
    assert completed("postmortem", "emulate", "disk", "da", cwd=tmp_path) == ["data"]


def test_bash_completes_names_with_blanks(tmp_path: Path) -> None:
    (tmp_path / "rank 0.log").touch()
    assert completed("postmortem", "logs", "ra", cwd=tmp_path) == ["rank 0.log"]
    assert completed("postmortem", "ra", cwd=tmp_path) == ["rank 0.log"]


@pytest.mark.parametrize(
    "words", [("core", "--thred", "3"), ("scan",), ("hang",), ("strace",), ("watch",)]
)
def test_a_usage_error_is_one_line(words: tuple[str, ...], prose: Prose) -> None:
    done = run_here(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    prose(done.stderr)
    assert f"see postmortem {words[0]} --help" in done.stderr


def test_quiet_is_the_verdict_alone(bad: Path) -> None:
    done = run_here("scan", "-q", str(bad))
    assert (done.returncode, done.stdout, done.stderr) == (1, "NaN in w (1 of 2 values)\n", "")


def test_demo_offers_no_option_about_files_that_lie_somewhere() -> None:
    told = run_here("demo", "--help").stdout
    assert "--locals" in told
    for option in ("--fold", "--slim", "--pid", "--sysroot", "--temp-dir"):
        assert option not in told


def test_dir_is_the_api() -> None:
    assert dir(postmortem) == sorted(postmortem.__all__)


class Terminal(io.StringIO):
    """A stream that calls itself a terminal, of one row of text."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0


LONG = "x\n" * 500


@pytest.fixture
def _rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((80, 24)))


@pytest.mark.usefixtures("_rows")
def test_a_pager_is_for_long_text_on_a_terminal() -> None:
    known = {"TERM": "xterm"}
    assert pager.wanted(LONG, Terminal(), known, asked=True) == ["less"]
    most = {**known, "PAGER": "most -s"}
    assert pager.wanted(LONG, Terminal(), most, asked=True) == ["most", "-s"]
    assert pager.wanted("short\n", Terminal(), known, asked=True) == []
    assert pager.wanted(LONG, Terminal(), known, asked=False) == []
    assert pager.wanted(LONG, io.StringIO(), known, asked=True) == []
    for left in ("", "cat", "'"):
        assert pager.wanted(LONG, Terminal(), {**known, "PAGER": left}, asked=True) == []
    assert pager.wanted(LONG, Terminal(), {"TERM": "dumb"}, asked=True) == []


def test_a_pager_gets_all_text(tmp_path: Path) -> None:
    got = tmp_path / "got"
    assert pager.show(LONG, ["sh", "-c", f"cat > {got}"], sys.__stdout__)
    assert got.read_text() == LONG
    assert pager.show(LONG, ["true"], sys.__stdout__)  # it left before the end
    assert not pager.show(LONG, [str(tmp_path / "missing")], sys.__stdout__)


def test_a_folder_that_was_removed_is_none_to_begin_in(tmp_path: Path) -> None:
    begin = "from postmortem.entry import run; run()"
    script = f'mkdir gone && cd gone && rmdir ../gone && exec "$0" -c "{begin}" rules --json'
    command = ["sh", "-c", script, sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
