"""`postmortem emulate` with real commands: what they meet, what is told of it, and what is left."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.commands import execute
from builders.forks import needs_torch
from builders.processes import state, until
from builders.prose import Prose

PYTHON = sys.executable
POSTMORTEM = [PYTHON, "-m", "postmortem"]
EMULATE = [*POSTMORTEM, "emulate"]
PROGRAMS = Path(__file__).parents[1] / "programs"
TWO_RANKS = [PYTHON, str(PROGRAMS / "some_ranks.py"), "2"]
REFUSED = 3
MARK = "POSTMORTEM_TEST_MARK"
NOBODY = 65534
CGROUP = "/sys/fs/cgroup"

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run in a folder of its own; after it nothing is left of what was changed."""
    monkeypatch.chdir(tmp_path)
    for name in ("POSTMORTEM_RUN", "POSTMORTEM_EMULATE", "RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    mark = f"{tmp_path}"
    monkeypatch.setenv(MARK, mark)
    shared = shared_files()
    yield tmp_path
    until(lambda: not processes(mark))
    until(lambda: not control_groups())
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(tmp_path) not in mounts
    assert " postmortem " not in mounts
    assert shared_files() <= shared


def emulate(*words: str, **named: Any) -> subprocess.CompletedProcess[str]:
    """Run a command under a fault."""
    return subprocess.run(
        [*EMULATE, *words], capture_output=True, text=True, timeout=100, check=False, **named
    )


def met(*words: str, **named: Any) -> subprocess.CompletedProcess[str]:
    """Run a command under a fault; skip the test where this machine cannot make it."""
    done = emulate(*words, **named)
    if done.returncode == REFUSED and "postmortem: emulate" in done.stderr:
        pytest.skip(done.stderr.strip())
    return done


def processes(mark: str) -> list[int]:
    """Return the processes that were started by a test, but for the test itself."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            marked = f"{MARK}={mark}".encode() in (path / "environ").read_bytes().split(b"\0")
            if marked and int(path.name) != os.getpid():
                found.append(int(path.name))
    return found


def control_groups() -> list[str]:
    """Return control groups of processes that are gone."""
    found = [top for top, _, _ in os.walk(CGROUP) if Path(top).name.startswith("postmortem-")]
    return [top for top in found if not Path(f"/proc/{top.rpartition('-')[2]}").exists()]


def shared_files() -> set[str]:
    """Return what tests may have left in /dev/shm."""
    return {path.name for path in Path("/dev/shm").glob("emulated*")}


def script(place: Path, text: str) -> list[str]:
    """Return a command that runs a program."""
    path = place / "program.py"
    path.write_text(text)
    return [PYTHON, str(path)]


def causes(kind: str, path: Path) -> list[str]:
    """Return the ids of what postmortem says of evidence, its verdict first."""
    done = execute([*POSTMORTEM, kind, str(path), "--json"])
    return [diagnosis["id"] for diagnosis in json.loads(done.stdout)["diagnoses"]]


def recorded(place: Path) -> list[str]:
    """Return what is put before a command to record its system calls."""
    return ["strace", "-f", "-yy", "-tt", "-o", str(place / "calls.txt")]


SAVE = """
import errno, sys
try:
    with open("data/model.pt", "wb") as stream:
        stream.write(bytes(100_000))
except OSError as error:
    print(errno.errorcode[error.errno], open("data/old").read())
    raise
"""
OPEN = """
import errno
files = []
try:
    while True:
        files.append(open("/dev/null"))
except OSError as error:
    print(errno.errorcode[error.errno], files[-1].fileno())
    raise
"""
SHARE = """
import mmap
with open("/dev/shm/emulated", "w+b") as stream:
    stream.truncate(1 << 20)
    mmap.mmap(stream.fileno(), 1 << 20)[:] = b"x" * (1 << 20)
"""


# --- the faults


@pytest.mark.parametrize("more", [(), ("--read-only",), ("--leave", "8K")])
def test_disk(more: tuple[str, ...], place: Path) -> None:
    (place / "data").mkdir()
    (place / "data" / "old").write_text("kept")
    done = met("disk", "data", *more, "--", *script(place, SAVE))
    assert done.returncode == 1
    assert done.stdout == ("EROFS kept\n" if "--read-only" in more else "ENOSPC kept\n")
    assert [path.name for path in (place / "data").iterdir()] == ["old"]


def test_disk_that_is_the_folder_we_are_in(place: Path) -> None:
    done = met("disk", ".", "--read-only", "--", "touch", "new")
    assert done.returncode == 1
    assert not (place / "new").exists()


def test_descriptors(place: Path) -> None:
    done = met("fd", "20", "--", *script(place, OPEN))
    assert (done.returncode, done.stdout) == (1, "EMFILE 19\n"), done.stderr


def test_shared_memory(place: Path) -> None:
    done = met("shm", "64K", "--", *script(place, SHARE), preexec_fn=no_core)
    assert done.returncode == 128 + signal.SIGBUS


@needs_strace
@pytest.mark.parametrize(
    ("fault", "program", "cause"),
    [
        ("disk data", SAVE, "disk_full"),
        ("disk data --read-only", SAVE, "read_only_file_system"),
        ("fd 20", OPEN, "too_many_open_files"),
        ("shm 64K", SHARE, "mapped_file_no_room"),
    ],
)
def test_record_of_calls_names_the_fault(fault: str, program: str, cause: str, place: Path) -> None:
    (place / "data").mkdir()
    (place / "data" / "old").write_text("kept")
    command = [*recorded(place), *script(place, program)]
    met(*fault.split(), "--", *command, preexec_fn=no_core)
    assert causes("strace", place / "calls.txt")[:1] == [cause]


def test_memory_is_killed_in_a_control_group_or_cannot_be_had(place: Path) -> None:
    program = script(place, "rows = []\nwhile True: rows.append(bytearray(10 << 20))")
    done = met("memory", "100M", "--", *program)
    if "of addresses for each process" in done.stderr:
        assert "MemoryError" in done.stderr
    else:
        assert done.returncode == 128 + signal.SIGKILL


def test_run_under_little_memory_says_so(place: Path, prose: Prose) -> None:
    program = script(place, "rows = []\nwhile True: rows.append(bytearray(10 << 20))")
    done = met("memory", "150M", "--", *POSTMORTEM, "run", "--", *program)
    if "of addresses for each process" in done.stderr:
        pytest.skip("no control group here")
    (path,) = place.glob("postmortem-*/manifest.json")
    left = json.loads(path.read_text())
    assert (left["explained_by"], left["signal"]) == ("ending", signal.SIGKILL)
    prose(left["verdict"])


def test_run_on_a_full_disk_says_which(place: Path) -> None:
    (place / "data").mkdir()
    (place / "data" / "old").write_text("kept")
    failing = SAVE.replace(
        "    raise\n", '    raise RuntimeError("basic_ios::clear: iostream error")\n'
    )
    met("disk", "data", "--", *POSTMORTEM, "run", "--", *script(place, failing))
    (folder,) = place.glob("postmortem-*")
    told = json.loads(execute([*POSTMORTEM, "triage", str(folder), "--json"]).stdout)
    assert [one["type"] for one in told["chain"]][:2] == ["file system full", "raised"]
    assert str(place / "data") in json.loads((folder / "manifest.json").read_text())["verdict"]


def test_addresses_run_out(place: Path) -> None:
    done = met("memory", "300M", "--addresses", "--", *script(place, "bytearray(900 << 20)"))
    assert done.returncode == 1
    assert "MemoryError" in done.stderr


def test_kill_of_a_rank_and_of_nobody_else(place: Path) -> None:
    done = met("kill", "1", "--signal", "SEGV", "--", *TWO_RANKS, "sleep", "3")
    assert done.stdout == f"[0, -{int(signal.SIGSEGV)}]\n"
    assert "SIGSEGV to rank 1" in done.stderr


def test_kill_of_the_command() -> None:
    done = met("kill", "command", "--after", "0.1", "--", "sleep", "60")
    assert done.returncode == 128 + signal.SIGKILL


def test_rank_that_is_never_there_is_told() -> None:
    done = met("kill", "7", "--", "sleep", "0.3")
    assert done.returncode == 0
    assert " rank 7" in done.stderr


def test_slow_rank_gets_its_part_of_the_time(place: Path) -> None:
    program = script(
        place,
        "import time\n"
        "longest, last = 0, time.monotonic()\n"
        "until = last + 3\n"
        "while last < until:\n"
        "    now = time.monotonic()\n"
        "    longest, last = max(longest, now - last), now\n"
        "print(longest)\n",
    )
    done = met("slow", "command", "--factor", "20", "--", *program)
    assert done.returncode == 0
    assert float(done.stdout) > 0.15  # a stop of 19 twentieths of a period
    assert " 1/20 " in done.stderr


@pytest.mark.skipif(not os.path.exists("/proc/self/ns/time"), reason="needs time namespaces")  # noqa: PTH110
def test_clock() -> None:
    before = float(Path("/proc/uptime").read_text().split()[0])
    done = met("clock", "1000000", "--", "cat", "/proc/uptime")
    assert float(done.stdout.split()[0]) >= before + 1_000_000


TALK = """
import socket, threading, time
server = socket.create_server(("127.0.0.1", 4444))
def serve():
    while True:
        peer, _ = server.accept()
        while peer.recv(1):
            peer.send(b"x")
threading.Thread(target=serve, daemon=True).start()
peer = socket.create_connection(("127.0.0.1", 4444))
peer.settimeout(5)
count = 0
try:
    while True:
        peer.send(b"x")
        peer.recv(1)
        count += 1
        time.sleep(0.001)
except TimeoutError:
    print("cut", count > 0)
"""


@pytest.mark.parametrize("more", [(), ("--to-port", "4444")])
def test_network_is_cut(more: tuple[str, ...], place: Path) -> None:
    done = met("net", "--cut-after", "4", *more, "--", *script(place, TALK))
    assert done.stdout == "cut True\n"


@pytest.mark.torch
@pytest.mark.slow
def test_nan_is_named_by_the_monitor(prose: Prose) -> None:
    needs_torch()
    program = [PYTHON, str(PROGRAMS / "emulated_nan.py")]
    done = met("nan", "2", "--step", "3", "--", *program)
    said = re.sub(r"pid \d+", "pid N", done.stderr).splitlines()
    prose(*(line for line in said if line.startswith("postmortem")))


@pytest.mark.torch
@pytest.mark.slow
def test_killed_rank_of_torchrun_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_torch()
    monkeypatch.setenv("PYTHONPATH", str(PROGRAMS / "quick"))
    job = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    job.append(str(PROGRAMS / "emulated_ranks.py"))
    fault = [*EMULATE, "kill", "1", "--after", "1"]
    done = execute([*POSTMORTEM, "run", "--", *fault, "--", PYTHON, "-m", *job])
    assert done.returncode == 1
    assert "rank 1 failed" in done.stderr


def test_slow_rank_is_named(place: Path) -> None:
    fault = [*EMULATE, "slow", "1", "--factor", "10", "--after", "2", "--"]
    job = [*TWO_RANKS, PYTHON, str(PROGRAMS / "meeting_ranks.py"), "even"]
    subprocess.run(
        [*POSTMORTEM, "run", "--timeout", "12", "--", *fault, *job],
        stderr=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )
    (folder,) = place.glob("postmortem-*")
    done = execute([*POSTMORTEM, "triage", str(folder), "--json"])
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert [(one["type"], one["ranks"]) for one in report["roots"]] == [("slow", [1])]
    assert report["diagnoses"][0]["id"] == "rank_slow"


# --- the command is as it was


@pytest.mark.parametrize("status", [0, 1, 77])
def test_status_is_the_commands(status: int) -> None:
    assert met("fd", "64", "--", "sh", "-c", f"exit {status}").returncode == status


def test_signals_go_through() -> None:
    child = subprocess.Popen(
        [*EMULATE, "fd", "64", "--", "sh", "-c", "trap 'exit 9' TERM; echo on; sleep 60 & wait"],
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    with child, child.stdout:
        assert child.stdout.readline() == b"on\n"
        child.terminate()
        assert child.wait(60) == 9


def test_command_that_is_not_there() -> None:
    done = met("fd", "64", "--", "no-such-program")
    assert done.returncode == 127
    assert done.stderr.startswith("postmortem: no-such-program: ")


def test_what_it_leaves_running_is_ended(place: Path) -> None:
    done = met("fd", "64", "--", "sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!")
    assert state(int(done.stdout)) in ("", "Z")


def test_faults_within_one_another(place: Path) -> None:
    (place / "data").mkdir()
    (place / "data" / "old").write_text("kept")
    done = met("fd", "64", "--", *EMULATE, "disk", "data", "--", *script(place, SAVE))
    assert (done.returncode, done.stdout) == (1, "ENOSPC kept\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="all tests are without rights")
@pytest.mark.parametrize("fault", ["disk .", "disk . --empty", "shm 64K", "net --rate 1M"])
def test_without_rights_it_gives_none(fault: str, tmp_path: Path) -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("needs a Python that everybody may run")
    source = Path(__file__).parents[2] / "src"
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chown(folder, NOBODY, NOBODY)
        done = execute(
            [
                python,
                "-m",
                "postmortem",
                "emulate",
                *fault.split(),
                "--",
                "sh",
                "-c",
                "id -u; grep CapEff /proc/self/status",
            ],
            cwd=folder,
            user=NOBODY,
            group=NOBODY,
            extra_groups=(),
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(source), MARK: str(tmp_path)}
            | {"PYTHONDONTWRITEBYTECODE": "1"},
        )
    if done.returncode != 0 and "emulated" not in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.stdout.split() == [str(NOBODY), "CapEff:", "0" * 16]


# --- nothing is left, whoever is killed


def no_core() -> None:
    """Leave no core: crashes here are meant."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize(
    "fault",
    ["disk data", "shm 64K", "fd 64", "memory 200M", "slow command", "net --rate 1M", "clock 9"],
)
def test_killed_emulate_leaves_nothing(fault: str, group: bool, place: Path) -> None:
    (place / "data").mkdir()
    daemon = "setsid sleep 300 >/dev/null 2>&1 & echo $!; sleep 300"
    child = subprocess.Popen(
        [*EMULATE, *fault.split(), "--", "sh", "-c", daemon],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    with child:
        daemon_pid = child.stdout.readline()
        (os.killpg if group else os.kill)(child.pid, signal.SIGKILL)
        child.wait(60)
        if not daemon_pid:
            pytest.skip(child.stderr.read().strip())
    until(lambda: not processes(str(place)))
    assert state(int(daemon_pid)) in ("", "Z")


@pytest.mark.parametrize("which", ["guard", "actor"])
def test_killed_helper_leaves_nobody_stopped(which: str) -> None:
    child = subprocess.Popen(
        [*EMULATE, "slow", "command", "--factor", "100", "--", "sh", "-c", "echo $$; sleep 300"],
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    with child:
        command = int(child.stdout.readline())
        until(lambda: state(command) == "T")
        guard = next(pid for pid in children(child.pid) if children(pid) and pid != command)
        victim = guard if which == "guard" else children(guard)[0]
        os.kill(victim, signal.SIGKILL)
        until(lambda: state(victim) in ("", "Z"))
        until(lambda: state(command) != "T")
        time.sleep(0.5)  # two periods: nobody stops it again
        assert state(command) == "S"
        child.terminate()
        child.wait(60)


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# --- what cannot be done


@pytest.mark.parametrize(
    "words",
    [
        ("disk", "/"),
        ("disk", "missing"),
        ("disk", ".", "--slow"),
        ("clock", "5", "--realtime"),
        ("net",),
        ("gpu",),
        ("net", "--delay", "5", "--cut-after", "1", "--to-port", "80"),
        ("fd", "999999"),
    ],
)
def test_refusal_is_one_line_before_the_command_starts(words: tuple[str, ...], place: Path) -> None:
    done = emulate(*words, "--", "touch", str(place / "started"), preexec_fn=few_files)
    assert done.returncode == REFUSED
    assert done.stderr.startswith(f"postmortem: emulate {words[0]}: ")
    assert done.stderr.count("\n") == 1
    assert not (place / "started").exists()


def few_files() -> None:
    """Lower the hard limit of open files."""
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("fd",),
        ("fd", "64"),
        ("fd", "64", "--"),
        ("fd", "x", "--", "true"),
        ("kill", "-1", "--", "true"),
        ("kill", "1", "--signal", "NONE", "--", "true"),
        ("slow", "1", "--factor", "nan", "--", "true"),
        ("memory", "5", "--", "true"),
        ("flood", "--", "true"),
    ],
)
def test_usage_errors(words: tuple[str, ...]) -> None:
    assert emulate(*words).returncode == 2
