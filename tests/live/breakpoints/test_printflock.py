"""Lines of eight processes, none torn: 25,000 to each of two files, a pipe, and a terminal."""

import io
import os
import pty
import re
import subprocess
import sys
import termios
import threading
from collections import Counter
from pathlib import Path

import pytest

from postmortem import printflock

PROGRAM = Path(__file__).parents[2] / "programs" / "breakpoints" / "printing.py"
EACH, LONG = 3_125, 70_000
LINE = re.compile(rb"\[[^\]:]+:(\d)\] (\d+) ([a-z]+) (\d+)\r?")


def whole(text: bytes, each: int) -> None:
    """Every line is one of the eight programs', and none is missing."""
    seen: Counter[int] = Counter()
    lines = text.split(b"\n")
    assert lines.pop() == b""
    for line in lines:
        found = LINE.fullmatch(line)
        assert found, line[:200]
        assert len(found[3]) == int(found[4])
        assert not found[3].strip(found[3][:1])  # one letter, all along
        seen[int(found[1])] += 1
    assert seen == dict.fromkeys(range(8), each)


def run(where: int, each: int, long: int) -> list[subprocess.Popen[bytes]]:
    return [
        subprocess.Popen([sys.executable, PROGRAM, str(r), str(each), str(long)], stdout=where)
        for r in range(8)
    ]


def all_end(programs: list[subprocess.Popen[bytes]]) -> None:
    assert [program.wait(110) for program in programs] == [0] * 8


@pytest.mark.parametrize("mode", ["ab", "wb"])
def test_to_a_file(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "log"
    with path.open(mode) as file:
        all_end(run(file.fileno(), EACH, LONG))
    whole(path.read_bytes(), EACH)


def test_to_a_pipe() -> None:
    ear, mouth = os.pipe()
    heard = bytearray()

    def listen() -> None:
        while part := os.read(ear, 1 << 20):
            heard.extend(part)

    thread = threading.Thread(target=listen)
    thread.start()
    programs = run(mouth, EACH, LONG)
    os.close(mouth)
    all_end(programs)
    thread.join()
    os.close(ear)
    whole(bytes(heard), EACH)


def test_to_a_terminal() -> None:
    near, far = pty.openpty()
    modes = termios.tcgetattr(far)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(far, termios.TCSANOW, modes)
    heard = bytearray()

    def listen() -> None:
        while True:
            try:
                heard.extend(os.read(near, 1 << 16))
            except OSError:
                return

    thread = threading.Thread(target=listen)
    thread.start()
    programs = run(far, EACH, 10_000)
    os.close(far)
    all_end(programs)
    thread.join()
    os.close(near)
    whole(bytes(heard), EACH)


def test_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postmortem.breakpoints.printing._prefix", lambda: "[h:3]")
    out = io.StringIO()
    printflock("a\nb", 7, sep="-", file=out)
    printflock(file=out)
    printflock("c\r\x0bd", end="", file=out)
    printflock("", end="", file=out)
    assert out.getvalue() == "[h:3] a\n[h:3] b-7\n[h:3] \n[h:3] c\r\x0bd"


def test_what_an_encoding_lacks(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w", encoding="ascii") as file:
        file.write("before\n")
        printflock("\N{SNOWMAN}", file=file)
    assert (tmp_path / "log").read_text().startswith("before\n[")
    assert (tmp_path / "log").read_text().endswith("\\u2603\n")
