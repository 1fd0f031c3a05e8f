"""`run --keep-output` on a real terminal: the command sees one, and its last words are evidence."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.terminals import Terminal, job_runs

pytestmark = pytest.mark.usefixtures("place")

RUN = [sys.executable, "-m", "postmortem", "run", "--keep-output", "--"]
PYTHON = [sys.executable, "-c"]


@pytest.fixture
def opened() -> Iterator[list[Terminal]]:
    terminals: list[Terminal] = []
    yield terminals
    for one in terminals:
        one.close()


def on_terminal(opened: list[Terminal], *command: str) -> Terminal:
    opened.append(Terminal([*RUN, *command], os.environ, (31, 97)))
    return opened[-1]


def kept() -> str:
    """Return the copy in the one folder that was left."""
    (found,) = Path.cwd().glob("postmortem-*/output/written.log")
    return found.read_bytes().decode()


def test_terminal_with_its_size_and_colours_and_every_byte_in_order(opened: list[Terminal]) -> None:
    program = (
        "import os\n"
        "print([os.isatty(n) for n in range(3)], os.get_terminal_size(1), flush=True)\n"
        "for n in range(200): os.write(1 + n % 2, b'\\r\\x1b[3%dm%d' % (n % 8, n))\n"
        "os.write(2, b'\\nno such dataset: c4\\n'); os._exit(9)"
    )
    terminal = on_terminal(opened, *PYTHON, program)
    shown = terminal.rest()
    assert terminal.process.returncode == 9
    assert "[True, True, True] os.terminal_size(columns=97, lines=31)\r\n" in shown
    bar = "".join(f"\r\x1b[3{n % 8}m{n}" for n in range(200))
    assert f"{bar}\r\nno such dataset: c4\r\n" in shown
    assert kept().endswith(f"{bar}\nno such dataset: c4\n")
    (found,) = Path.cwd().glob("postmortem-*/manifest.json")
    report = json.loads(found.read_text())["report"]
    assert [one["id"] for one in report["diagnoses"]] == ["last_words"]
    assert "no such dataset: c4" in report["verdict"]


def test_keys_and_a_new_size_reach_it(opened: list[Terminal]) -> None:
    program = (
        "import os, signal, time\n"
        "def sized(*_): print('size', os.get_terminal_size(2).columns, flush=True)\n"
        "signal.signal(signal.SIGWINCH, sized)\n"
        "print('typed', input('name? '), flush=True)\ntime.sleep(99)"
    )
    terminal = on_terminal(opened, *PYTHON, program)
    terminal.until("name? ")
    terminal.type("ada\n")
    terminal.until("typed ada")
    terminal.resize(40, 123)
    terminal.until("size 123")
    terminal.type("\x03")
    assert "KeyboardInterrupt" in terminal.rest()
    assert terminal.process.returncode == 128 + signal.SIGINT


def test_ctrl_z_and_fg(opened: list[Terminal], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PS1", "prompt> ")
    program = "import time; print('rea' + 'dy', flush=True); time.sleep(60)"
    shell = Terminal(["bash", "--norc", "-i"], os.environ, (31, 97))
    opened.append(shell)
    shell.until("prompt> ")
    shell.type(" ".join([*RUN, *PYTHON, f'"{program}"']) + "\n")
    shell.until("ready")
    shell.type("\x1a")
    assert "Stopped" in shell.until("prompt> ")
    shell.type("fg\n")
    job_runs(shell.process.pid)
    shell.type("\x03")
    shell.until("prompt> ")
    shell.type("echo status''= $?\n")
    shell.until("status= 130")


def test_who_lives_on_can_still_write(opened: list[Terminal]) -> None:
    run = f"{' '.join(RUN)} sh -c '(sleep 2; echo later) & exit 3'; echo status $?; sleep 9"
    terminal = Terminal(["sh", "-c", run], os.environ, (31, 97))
    opened.append(terminal)
    terminal.until("status 3")
    terminal.until("later")


def test_pipes_get_every_byte_and_end_with_the_command() -> None:
    program = "import os; os.write(1, b'step 9\\n' * 900_000); os.write(2, b'end'); os._exit(2)"
    done = subprocess.run([*RUN, *PYTHON, program], capture_output=True, timeout=90, check=False)
    assert (done.returncode, done.stdout) == (2, b"step 9\n" * 900_000)
    assert done.stderr.startswith(b"end")
    assert len(kept()) == 1 << 20


def test_without_a_failure_nothing_is_left(place: Path) -> None:
    done = subprocess.run([*RUN, "echo", "x"], capture_output=True, timeout=90, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"x\n", b"")
    assert not list(place.iterdir())
