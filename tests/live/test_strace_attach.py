"""`strace --attach`: a live process is recorded, and goes on as if nothing had been."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.processes import until
from builders.prose import Prose

ATTACH = [sys.executable, "-m", "postmortem", "strace", "--attach"]
PROGRAM = """
import os, sys, threading, time
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
full = os.open("/dev/full", os.O_WRONLY)
def fail():
    while True:
        try:
            os.write(full, b"x")
        except OSError:
            pass
        time.sleep(0.02)
threading.Thread(target=fail, daemon=True).start()
print("ready", flush=True)
while True:
    os.pwrite(out, str(time.monotonic()).encode(), 0)
    time.sleep(0.02)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder / "beat")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = start(tmp_path)
    strace = shutil.which("strace")
    probe = [strace or "false", "-o", "/dev/null", "-p", str(process.pid)]
    try:
        with subprocess.Popen(probe, stderr=subprocess.DEVNULL) as traced:
            try:
                code = traced.wait(0.5)
                pytest.skip(f"strace cannot attach here ({code})")
            except subprocess.TimeoutExpired:
                traced.send_signal(signal.SIGINT)
        yield process
    finally:
        process.kill()
        process.communicate()


def goes_on(process: subprocess.Popen[str], folder: Path) -> None:
    """Its loop runs, and nobody traces it."""
    status = Path(f"/proc/{process.pid}/status")
    until(lambda: "TracerPid:\t0\n" in status.read_text())
    before = (folder / "beat").read_text()
    until(lambda: (folder / "beat").read_text() != before)


def recorded(log: Path) -> None:
    """Wait until something stands in a log."""
    until(lambda: log.exists() and log.stat().st_size)


def test_it_is_explained_and_goes_on(program: subprocess.Popen[str], tmp_path: Path) -> None:
    words = [str(program.pid), "--seconds", "1", "--find", "ENOSPC", "--json"]
    done = subprocess.run([*ATTACH, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    (found,) = json.loads(done.stdout)["finds"]
    assert found["matches"][0]["target"]["path"] == "/dev/full"  # opened before we came
    assert "detached" in done.stderr
    goes_on(program, tmp_path)
    assert not list(Path(os.environ.get("TMPDIR", "/tmp")).glob(f"*/strace-{program.pid}.txt"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_goes_on_however_we_end(
    program: subprocess.Popen[str], number: signal.Signals, tmp_path: Path
) -> None:
    log = tmp_path / "kept.txt"
    words = [str(program.pid), "--seconds", "600", "--keep-log", str(log)]
    ours = subprocess.Popen(
        [*ATTACH, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    recorded(log)
    ours.send_signal(number)
    said = ours.communicate(timeout=60)[0]
    assert bool(said) == (number == signal.SIGINT)  # Ctrl-C ends the recording, and it is explained
    goes_on(program, tmp_path)


def test_a_process_that_ends_meanwhile(
    program: subprocess.Popen[str], tmp_path: Path, prose: Prose
) -> None:
    log = tmp_path / "kept.txt"
    words = [str(program.pid), "--seconds", "600", "--keep-log", str(log)]
    with subprocess.Popen([*ATTACH, *words], stderr=subprocess.PIPE, text=True) as ours:
        recorded(log)
        program.terminate()
        said = ours.communicate(timeout=60)[1]
    prose(re.sub(r"[\d.]+ s |\d+", "N ", said))


def test_nobody_to_attach_to() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    done = subprocess.run([*ATTACH, str(ended.pid)], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert str(ended.pid) in done.stderr or "strace" in done.stderr
