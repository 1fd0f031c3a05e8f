"""First screens of commands on real evidence, held to the rules of all cards."""

import math
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders import cards
from builders.checkpoints import floats, safetensors
from builders.commands import run_here
from builders.processes import speaking

Words = tuple[object, ...]
_LOCKED = """\
import threading

LOCK = threading.Lock()


def save():
    with LOCK:
        print("ready", flush=True)
        with LOCK:
            pass


save()
"""


@contextmanager
def process(folder: Path, text: str) -> Iterator[int]:
    """Have a program of the user's that has come to its end of all work."""
    path = folder / "train.py"
    path.write_text(text)
    command = [sys.executable, str(path)]
    with speaking(*command) as (child, said):
        assert said.readline() == "ready\n"
        yield child.pid


@contextmanager
def hung(folder: Path) -> Iterator[Words]:
    with process(folder, _LOCKED) as pid:
        yield "hang", pid


@contextmanager
def watched(folder: Path) -> Iterator[Words]:
    with process(folder, _LOCKED) as pid:
        yield "watch", pid, "--for", 2


@contextmanager
def grown(folder: Path) -> Iterator[Words]:
    text = "import time\nprint('ready', flush=True)\nkept = []\nwhile True:\n"
    text += "    kept.append(bytearray(b'x') * (4 << 20))\n    time.sleep(0.1)\n"
    with process(folder, text) as pid:
        yield "watch", pid, "--for", 8, "--interval", 0.2


@contextmanager
def refused(_folder: Path) -> Iterator[Words]:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    yield "net", "check", f"127.0.0.1:{port}", "--wait", 1


@contextmanager
def in_use(_folder: Path) -> Iterator[Words]:
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield "net", "check", f"127.0.0.1:{one.getsockname()[1]}"


@contextmanager
def no_name(_folder: Path) -> Iterator[Words]:
    yield "net", "check", "node1.invalid:29500"


@contextmanager
def bad(folder: Path) -> Iterator[Words]:
    for step, value in enumerate((1.0, 2.0, math.nan)):
        rows = {f"layers.{n}.weight": ("F32", [2], floats(value, 3)) for n in range(9)}
        (folder / f"step-{step}.safetensors").write_bytes(safetensors(rows))
    yield "scan", *sorted(folder.iterdir())


@contextmanager
def cut(folder: Path) -> Iterator[Words]:
    whole = safetensors({"layers.0.weight": ("F32", [2], floats(1, 3))})
    path = folder / "step-3.safetensors"
    path.write_bytes(whole[:-3])
    yield "scan", path


@contextmanager
def missing(_folder: Path) -> Iterator[Words]:
    yield "import", "nothing_of_this_name"


@contextmanager
def imported(_folder: Path) -> Iterator[Words]:
    yield "import", "json"


@contextmanager
def far(_folder: Path) -> Iterator[Words]:
    yield "fleet", "-w", "node1.invalid", "--engine", "ssh", "--deadline", 20, "doctor"


@pytest.mark.parametrize(
    "evidence", [hung, watched, grown, refused, in_use, no_name, bad, cut, missing, imported, far]
)
def test_a_card_holds(evidence: Callable[[Path], "contextmanager[Words]"], tmp_path: Path) -> None:
    with cards.made() as reports, evidence(tmp_path) as words:
        done = run_here(*words)
    assert reports, done.stderr
    assert [fault for one in reports for fault in cards.faults(one)] == []
