"""``postmortem core`` with gdb: its lines, and a gdb that is missing, foreign, slow or dying."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import postmortem
from builders.commands import ENVIRONMENT, crash_in, refused, run, script
from builders.processes import until
from postmortem.cli.main import main

pytest.importorskip("postmortem._native")

pytestmark = [pytest.mark.cores]

needs_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb")


@pytest.fixture(scope="session")
def with_lines(tmp_path_factory: pytest.TempPathFactory, compiled: Callable[..., Path]) -> Path:
    """The core of a small program that gdb can tell lines of."""
    program = compiled("segv_here.cpp", "-g", "-O1")
    return crash_in(tmp_path_factory.mktemp("line-core"), [str(program)])


@pytest.mark.parametrize("engine", ["auto", "gdb"])
def test_a_gdb_that_was_asked_for_must_be_there(with_lines: Path, engine: str) -> None:
    line, hint = refused(run(with_lines, "--gdb", "/nonexistent/gdb", "--engine", engine))
    assert "/nonexistent/gdb" in line
    assert "install" in hint


def test_without_any_gdb_the_report_is_useful(with_lines: Path, tmp_path: Path) -> None:
    # -S hides the wheel of the extra [gdb], which lies in site-packages, beside the package itself
    alone = tmp_path / "alone"
    (alone / "postmortem").mkdir(parents=True)
    for folder in postmortem.__path__:  # an editable install has its libraries elsewhere
        for entry in Path(folder).iterdir():
            (alone / "postmortem" / entry.name).symlink_to(entry)
    env = ENVIRONMENT | {"PATH": str(tmp_path), "PYTHONPATH": str(alone)}
    command = [sys.executable, "-S", "-m", "postmortem", "core", str(with_lines), "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert any(row["where"] == "gdb" and row["remedy"] for row in report["problems"])
    assert report["threads"][0]["frames"][0]["function"].startswith("innocent")


@needs_gdb
def test_without_a_temporary_folder_only_gdb_is_lost(
    with_lines: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])
    assert main(["core", str(with_lines), "--engine", "gdb", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert "gdb" in [row["where"] for row in report["problems"]]
    assert report["threads"][0]["frames"]


@pytest.mark.parametrize("end", ["sleep 600", "exit 1", "kill -9 $$"])
def test_a_gdb_that_hangs_or_dies_loses_only_its_own_part(
    with_lines: Path, tmp_path: Path, end: str
) -> None:
    text = f'case "$*" in *--version*) echo "GNU gdb (GDB) 13.1"; exit 0;; esac\n{end}\n'
    began = time.monotonic()
    done = run(with_lines, "--gdb", script(tmp_path / "gdb", text), "--deadline", 2, "--json")
    assert time.monotonic() - began < 50
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert any("gdb" in row["where"] + row["what"] for row in report["problems"])
    assert report["threads"][0]["frames"][0]["function"].startswith("innocent")


@needs_gdb
@pytest.mark.gdb
@pytest.mark.parametrize("engine", ["auto", "gdb"])
def test_lines_and_arguments_come_from_gdb(with_lines: Path, engine: str) -> None:
    done = run(with_lines, "--engine", engine, "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    crashed = next(thread for thread in report["threads"] if thread["crashed"])
    frame = crashed["frames"][0]
    assert frame["function"].startswith("innocent")
    assert frame["file"].endswith("segv_here.cpp")
    assert frame["line"] == 2
    assert report["problems"] == []


_SHOT = """\
import os, signal, subprocess, sys
gdb = subprocess.Popen([{real!r}, *sys.argv[1:]], stdin=subprocess.PIPE)
if "--version" in sys.argv:
    sys.exit(gdb.wait())
for line in sys.stdin:
    if "source inside.py" in line:
        break
    gdb.stdin.write(line.encode())
    gdb.stdin.flush()
gdb.kill()
gdb.wait()
os.kill(os.getpid(), signal.SIGKILL)
"""


@needs_gdb
@pytest.mark.gdb
def test_gdb_that_dies_half_way(with_lines: Path, tmp_path: Path) -> None:
    # the real gdb, shot when it has opened the core and is asked for the stacks
    text = _SHOT.format(real=shutil.which("gdb"))
    done = run(with_lines, "--gdb", script(tmp_path / "gdb", text, sys.executable), "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    (told,) = [row for row in report["problems"] if row["where"] == "gdb"]
    assert "SIGKILL" in told["what"]
    assert report["signal"]["name"] == "SIGSEGV"
    assert report["threads"][0]["frames"][0]["function"].startswith("innocent")


@pytest.mark.parametrize(
    "garbage",
    ["head -c 300000 /dev/urandom", "cat /dev/urandom", "yes '1^done,a=[[[[{'", "yes '^'"],
)
def test_a_gdb_that_talks_garbage_loses_only_its_own_part(
    with_lines: Path, tmp_path: Path, garbage: str
) -> None:
    text = f'case "$*" in *--version*) echo "GNU gdb (GDB) 13.1"; exit 0;; esac\n{garbage}\n'
    done = run(with_lines, "--gdb", script(tmp_path / "gdb", text), "--deadline", 5, "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert any(row["where"] == "gdb" for row in report["problems"])
    assert report["threads"][0]["frames"][0]["function"].startswith("innocent")


def test_what_is_on_path_as_gdb_and_is_none_is_passed_over(
    with_lines: Path, tmp_path: Path
) -> None:
    script(tmp_path / "gdb", "echo this is another program\n")
    env = ENVIRONMENT | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = [sys.executable, "-m", "postmortem", "core", str(with_lines), "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    frame = report["threads"][0]["frames"][0]
    assert frame["function"].startswith("innocent")
    # the wheel's gdb was taken instead, or it is said that there is none
    assert frame["line"] == 2 or any("gdb" in row["where"] for row in report["problems"])


def _group_of(group: int) -> list[int]:
    """Return the living processes of a group: gdb, what it started, and their guardian."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX" and int(fields[2]) == group:
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_an_end_while_gdb_works_leaves_nothing(
    with_lines: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    mark, rooms = tmp_path / "started", tmp_path / "rooms"
    rooms.mkdir()
    text = (
        'case "$*" in *--version*) echo "GNU gdb (GDB) 13.1"; exit 0;; esac\n'
        'echo "a secret" >> answer.jsonl\n'
        f'sleep 601 & echo $$ > "{mark}.new"; mv "{mark}.new" "{mark}"; sleep 600; sleep 602\n'
    )
    fake = script(tmp_path / "gdb", text)
    command = [sys.executable, "-m", "postmortem", "core", str(with_lines), "--gdb", str(fake)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT | {"TMPDIR": str(rooms)},
        start_new_session=True,
    )
    try:
        until(lambda: mark.exists() or process.poll() is not None)
        group = os.getpgid(int(mark.read_text()))
        assert len(_group_of(group)) >= 3
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code, err
    assert b"Traceback" not in err
    assert out == b""
    until(lambda: not _group_of(group))
    left = list(rooms.rglob("*"))
    if number != signal.SIGKILL:
        assert left == []
    assert not any(
        path.is_file() and not path.is_symlink() and "answer" in path.name for path in left
    )
