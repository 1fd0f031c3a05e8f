"""strace run for real, with one set of options after another; /dev/full gives ENOSPC at will."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from builders.recordings import read
from postmortem.cli.main import main

PROGRAM = """
import os, socket, threading
def fail(fd):
    try:
        os.write(fd, b"y" * 100)
    except OSError:
        pass
first = os.open("/dev/full", os.O_WRONLY)
os.set_inheritable(first, True)
decoy = os.open("decoy.bin", os.O_WRONLY | os.O_CREAT)
copy = os.dup(first)
fail(copy)
os.dup2(first, 77)
fail(77)
a, b = socket.socketpair()
pid = os.fork()
if pid == 0:
    _, fds, _, _ = socket.recv_fds(b, 10, 1)
    fail(fds[0])
    os._exit(0)
os.close(first)
again = os.open("decoy2.bin", os.O_WRONLY | os.O_CREAT)
socket.send_fds(a, [b"x"], [copy])
os.waitpid(pid, 0)
thread = threading.Thread(target=fail, args=(copy,))
thread.start()
thread.join()
os.set_inheritable(copy, True)
os.execv("/bin/sh", ["sh", "-c", f"echo late >&{copy}; true"])
"""
WRITES = 5

OPTIONS = {
    "-f": ["-f"],
    "-f -t": ["-f", "-t"],
    "-f -tt -T": ["-f", "-tt", "-T"],
    "-f -ttt -T -y": ["-f", "-ttt", "-T", "-y"],
    "-f -r -i": ["-f", "-r", "-i"],
    "-f -yy -v": ["-f", "-yy", "-v"],
    "-f -x": ["-f", "-x"],
    "-f -xx": ["-f", "-xx"],
    "-f -s 0": ["-f", "-s", "0"],
    "-f -X verbose": ["-f", "-X", "verbose"],
    "-f -X raw": ["-f", "-X", "raw"],
    "-f -C": ["-f", "-C"],
    "-f -n": ["-f", "-n"],
    "-f some calls": ["-f", "-e", "trace=%desc,%file,%process,%network"],
    "-f --seccomp-bpf": ["-f", "--seccomp-bpf", "-e", "trace=%desc,%file,%process,%network"],
    "-ff -ttt -T": ["-ff", "-ttt", "-T"],
    "-ff": ["-ff"],
}


def can_trace() -> bool:
    """Whether strace is here and may trace."""
    if shutil.which("strace") is None:
        return False
    return (
        subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0
    )


pytestmark = pytest.mark.skipif(not can_trace(), reason="strace is not here, or may not trace")


def record(folder: Path, options: list[str]) -> Path:
    log = folder / "strace.txt"
    command = ["strace", *options, "-o", str(log), sys.executable, "-S", "-c", PROGRAM]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if run.returncode != 0 and "option" in run.stderr:
        pytest.skip(f"this strace has no such option: {run.stderr.splitlines()[0]}")
    assert run.returncode == 0, run.stderr
    return log


@pytest.mark.parametrize("name", OPTIONS)
def test_every_failure_names_dev_full(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = record(tmp_path, OPTIONS[name])
    assert main(["strace", str(log), "--find", "ENOSPC", "--json"]) == 1
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    matches = document["finds"][0]["matches"]
    assert len(matches) == WRITES
    # -s 0 writes [...] for the numbers of a socket pair and of sent descriptors.
    unknown = [match for match in matches if match["target"]["source"] == "unknown"]
    assert len(unknown) == (1 if name == "-f -s 0" else 0)
    known = [match["target"] for match in matches if match not in unknown]
    assert {target["path"] for target in known} == {"/dev/full"}
    assert {target["kind"] for target in known} == {"device"}
    assert document["unparsed_lines"] == 0


def test_the_recommended_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["strace", "--record-hint"]) == 0
    words = capsys.readouterr().out.split()
    log = record(tmp_path, words[1 : words.index("-o")])
    got = read(log.read_bytes(), errors=["ENOSPC"])
    assert [match["target"]["path"] for match in got["matches"]] == ["/dev/full"] * WRITES


FAILS = """
import mmap, os, signal, subprocess
full = os.open("/dev/full", os.O_WRONLY)
os.set_inheritable(full, True)
copy = os.dup(full)
os.set_inheritable(copy, True)
os.close(full)
decoy = os.open("decoy", os.O_WRONLY | os.O_CREAT)
subprocess.run(["sh", "-c", f"echo x >&{copy}"], pass_fds=[copy], stderr=subprocess.DEVNULL)
if not os.path.exists("/nonexistent/model.pt"):
    mapped = os.open("mapped.bin", os.O_RDWR | os.O_CREAT)
    os.ftruncate(mapped, 8192)
    view = mmap.mmap(mapped, 8192)
    os.ftruncate(mapped, 0)
    if os.fork() == 0:
        view[5000] = 1
    os.wait()
"""


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("errno=ENOSPC syscall=write", "/dev/full"),
        ("ENOENT path=*/model.pt", "/nonexistent/model.pt"),
        ("SIGBUS", "mapped.bin"),
        ("syscall=write path=/dev/full", "/dev/full"),
    ],
)
def test_what_a_question_needs_is_recorded(
    query: str, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed command, run by a shell as it stands, and asked for the file."""
    program = tmp_path / "fails.py"
    program.write_text(FAILS)
    assert main(["strace", "--record-hint", "--find", query]) == 0
    command = capsys.readouterr().out.replace("COMMAND", f"{sys.executable} -S fails.py")
    run = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert main(["strace", str(tmp_path / "strace.txt"), "--find", query, "--json"]) == 1
    matches = json.loads(capsys.readouterr().out)["finds"][0]["matches"]
    assert {match["target"]["path"] for match in matches} == {str(tmp_path / path)}


def test_standard_error_with_output_glued_in(tmp_path: Path) -> None:
    """strace and the program write to one pipe: halves, notices and output are mixed."""
    program = PROGRAM.replace("def fail", "def say():\n    os.write(2, b'no newline ')\ndef fail")
    program = program.replace(
        "    try:\n        os.write(fd", "    say()\n    try:\n        os.write(fd"
    )
    run = subprocess.run(
        ["strace", "-f", sys.executable, "-S", "-c", program],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        check=True,
    )
    got = read(run.stderr, errors=["ENOSPC"])
    assert len(got["matches"]) == WRITES, run.stderr.decode()
    assert {match["target"]["path"] for match in got["matches"]} == {"/dev/full"}


def test_the_annotations_of_a_live_recording(tmp_path: Path) -> None:
    log = record(tmp_path, ["-f", "-yy"])
    check = read(log.read_bytes(), check=True)["check"]
    assert check["uses"] > 20
    assert check["wrong"] == 0, check["examples"]
    assert not check["examples"]


def test_blocked_and_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "strace.txt"
    program = "import os, signal; r, w = os.pipe(); signal.alarm(1); os.read(r, 1)"
    subprocess.run(["strace", "-f", "-o", str(log), sys.executable, "-S", "-c", program])
    assert main(["strace", str(log), "--json"]) == 1
    (process,) = json.loads(capsys.readouterr().out)["processes"]
    assert process["exit"]["signal"] == "SIGALRM"
    assert process["pid"] != os.getpid()


SEND_OVER_A_NAMED_SOCKET = """
import os, socket
server = socket.socket(socket.AF_UNIX)
server.bind("meet")
server.listen()
pid = os.fork()
if pid == 0:
    client = socket.socket(socket.AF_UNIX)
    client.connect("meet")
    _, fds, _, _ = socket.recv_fds(client, 10, 1)
    try:
        os.write(fds[0], b"y")
    except OSError:
        os._exit(0)
    os._exit(1)
conversation, _ = server.accept()
target = os.open("/dev/full", os.O_WRONLY)
socket.send_fds(conversation, [b"x"], [target])
os.close(target)
os.open("decoy.bin", os.O_WRONLY | os.O_CREAT)
raise SystemExit(os.waitpid(pid, 0)[1])
"""


@pytest.mark.parametrize("options", [["-f"], ["-ff", "-ttt"], ["-ff", "-ttt", "-T"]], ids=str)
def test_a_descriptor_sent_over_a_named_socket(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of -ff, lines stand by the time at which calls began: the receive before the send."""
    log = trace(tmp_path, options, SEND_OVER_A_NAMED_SOCKET)
    assert main(["strace", str(log), "--find", "ENOSPC", "--json"]) == 1
    (match,) = json.loads(capsys.readouterr().out)["finds"][0]["matches"]
    assert match["target"]["path"] == "/dev/full"


BEYOND_THE_END = """
import mmap, os
with open("short.bin", "wb+") as file:
    file.truncate(8192)
    view = mmap.mmap(file.fileno(), 8192)
    file.truncate(0)
    view[5000] = 1
"""


@pytest.mark.parametrize("options", [["-f"], ["-f", "-X", "raw"], ["-f", "-yy"]], ids=str)
def test_the_file_under_a_bus_error(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = trace(tmp_path, options, BEYOND_THE_END, code=-7)
    assert main(["strace", str(log), "--json"]) == 1
    (diagnosis, *_) = json.loads(capsys.readouterr().out)["diagnoses"]
    assert diagnosis["id"] == "mapped_file_no_room"
    assert "short.bin" in diagnosis["title"]


def test_dumps_of_vectors(tmp_path: Path) -> None:
    program = "import os; os.writev(os.open('/dev/full', os.O_WRONLY), [b'ENOSPC', b'= -1'])"
    log = trace(tmp_path, ["-f", "-e", "write=all", "-e", "read=all"], program, code=1)
    got = read(log.read_bytes(), errors=["ENOSPC"])
    assert got["counts"]["unparsed"] == 0, got["first_unparsed"]
    assert [match["target"]["path"] for match in got["matches"]] == ["/dev/full"]


TWO_LOCKS = """
import os, threading
first, second, meet = threading.Lock(), threading.Lock(), threading.Barrier(2)
def take(one, other):
    with one:
        meet.wait()
        other.acquire()
threading.Thread(target=take, args=(first, second), daemon=True).start()
os.write(1, b"ready")
take(second, first)
"""


def test_a_deadlock_that_somebody_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "strace.txt"
    command = ["strace", "-f", "-o", str(log), sys.executable, "-S", "-c", TWO_LOCKS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tracer:
        assert tracer.stdout is not None
        assert tracer.stdout.read(5) == b"ready"
        children = Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children")
        (child,) = map(int, children.read_text().split())
        wait_until_blocked(child)
        os.kill(child, 9)
    assert main(["strace", str(log), "--json"]) == 1
    (diagnosis, *_) = json.loads(capsys.readouterr().out)["diagnoses"]
    assert diagnosis["id"] == "futex_deadlock"
    assert len(diagnosis["evidence"]) == 2  # one of each thread


def wait_until_blocked(pid: int) -> None:
    """Wait until every task of a process is in futex, twice in a row without having run."""
    before: list[str] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        tasks = [path.parent for path in Path(f"/proc/{pid}/task").glob("*/wchan")]
        waits = [(task / "wchan").read_text() for task in tasks]
        switches = [line for task in tasks for line in (task / "status").read_text().splitlines()]
        now = [line for line in switches if "ctxt_switches" in line]
        if len(tasks) == 2 and all("futex" in wait for wait in waits) and now == before:
            return
        before = now
        time.sleep(0.05)
    pytest.fail("its threads did not come to rest")


def trace(folder: Path, options: list[str], program: str, code: int = 0) -> Path:
    """Return the log of a program that ends with a code, or by the signal of which it is minus."""
    log = folder / "strace.txt"
    command = ["strace", *options, "-o", str(log), sys.executable, "-S", "-c", program]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if run.returncode != code and "option" in run.stderr:
        pytest.skip(f"this strace has no such option: {run.stderr.splitlines()[0]}")
    assert run.returncode == code, run.stderr
    return log
