"""``postmortem hang`` on real jobs: who is stuck, in what, and that nobody is left stopped."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builders.commands import call, execute, report
from builders.forks import needs_torch
from builders.processes import speaking, state, until
from builders.prose import Prose
from builders.schema import validate
from postmortem.analyses.live_job import HangOptions, read_job
from postmortem.cli.main import main

SCRIPTS = Path(__file__).parents[1] / "programs"
PROGRAMS = SCRIPTS / "hang"
_SECONDS = 120


def channel_is(pid: int, *names: str) -> bool:
    """Whether a process sleeps, its last call being one of these."""
    try:
        number = Path(f"/proc/{pid}/syscall").read_text().split()[0]
    except (OSError, IndexError):
        return False
    return number in names


@contextmanager
def program(
    text: str, folder: Path, *arguments: str, **env: str
) -> Iterator[subprocess.Popen[str]]:
    """A Python program that prints "ready" and goes on."""
    script = folder / "job.py"
    script.write_text(text)
    words = [sys.executable, script, *arguments]
    env = dict(os.environ) | env
    with speaking(*words, stdin=subprocess.PIPE, env=env, start_new_session=True) as (child, said):
        assert said.readline() == "ready\n"
        yield child


def hang(*words: str | int, code: int | None = None) -> dict[str, Any]:
    """The JSON of one run; its schema and whether that is a failure are checked."""
    document = report("hang", *words)
    assert code is None or (document["outcome"] == "failed") == bool(code), document["verdict"]
    return document


def own_lines(thread: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (frame["function"], Path(frame["file"] or "").name)
        for frame in thread["frames"]
        if frame["kind"] == "python"
    ]


def main_thread(process: dict[str, Any]) -> dict[str, Any]:
    (found,) = [thread for thread in process["threads"] if thread["tid"] == process["pid"]]
    return dict(found)


LOCKED = """
import threading, time
lock = threading.Lock()
def holder():
    with lock:
        print("ready", flush=True)
        time.sleep(1000)
def step():
    lock.acquire()
thread = threading.Thread(target=holder, name="saver", daemon=True)
thread.start()
while not lock.locked():
    time.sleep(0.01)
step()
"""


def test_a_lock_and_who_holds_it(tmp_path: Path) -> None:
    with program(LOCKED, tmp_path) as child:
        until(lambda: channel_is(child.pid, "202", "98"), "it waits for the lock")
        report = hang(child.pid, code=1)
        assert state(child.pid) == "S"
    (process,) = report["processes"]
    assert process["read_by"] == "native"
    thread = main_thread(process)
    assert own_lines(thread)[:2] == [("step", "job.py"), ("<module>", "job.py")]
    names = {row["tid"]: row["python_name"] or row["name"] for row in process["threads"]}
    assert thread["waits_for"]["holder"] in names
    assert thread["waits_for"]["holder"] != process["pid"]
    assert thread["state"] == "S"


PIPE = """
import os
reader, writer = os.pipe()
def take():
    print("ready", flush=True)
    os.read(reader, 1)
take()
"""


def test_a_pipe_that_nobody_else_writes(tmp_path: Path, prose: Prose) -> None:
    with program(PIPE, tmp_path) as child:
        until(lambda: channel_is(child.pid, "0", "63"), "it reads the pipe")
        report = hang(child.pid, code=1)
    thread = main_thread(report["processes"][0])
    assert thread["system_call"]["name"] == "read"
    prose(re.sub(r"\d+", "N", thread["does"]))
    (number,) = thread["system_call"]["fds"]
    row = next(r for r in report["processes"][0]["descriptors"] if r["fd"] == number)
    assert row["kind"] == "pipe"


SOCKET = """
import socket, sys
port = int(sys.argv[1])
connection = socket.create_connection(("127.0.0.1", port))
def wait_for_peer():
    print("ready", flush=True)
    connection.recv(1)
wait_for_peer()
"""


def test_a_process_that_maps_more_than_its_reader_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = "import mmap\nheld = mmap.mmap(-1, 3 << 30, flags=mmap.MAP_PRIVATE)\n"
    monkeypatch.setenv("POSTMORTEM_MEMORY", "1G")
    with program(maps + PIPE, tmp_path) as child:
        report = hang(child.pid)
    (process,) = report["processes"]
    assert process["read_by"] == "native"
    assert own_lines(main_thread(process))[:1] == [("take", "job.py")]


def test_a_socket_and_its_peer(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with program(SOCKET, tmp_path, str(port)) as child:
            accepted, _ = server.accept()
            with accepted:
                until(lambda: channel_is(child.pid, "45", "207"), "it receives")
                report = hang(child.pid, code=1)
    does = main_thread(report["processes"][0])["does"]
    assert f"to 127.0.0.1:{port}, established" in does
    assert f" pid {os.getpid()}" in does


def test_where_samples_take_long_fewer_are_taken(tmp_path: Path) -> None:
    with program(LOCKED, tmp_path) as child:
        options = HangOptions(pids=(child.pid,), samples=12, gap_seconds=0.01, within_seconds=0.0)
        job, _ = read_job(options)
    assert job.samples == 2


def test_one_sample_says_that_it_cannot_tell(tmp_path: Path) -> None:
    with program(PIPE, tmp_path) as child:
        until(lambda: channel_is(child.pid, "0", "63"), "it reads the pipe")
        report = hang(child.pid, "--samples", 1, code=0)
    assert not report["stuck"]
    assert report["processes"][0]["motion"] is None


RANK_WITH_WORKER = """
import os, pathlib, time
worker = os.fork()
if worker == 0:
    time.sleep(1000)
pathlib.Path("worker").write_text(str(worker))
print("ready", flush=True)
os.waitpid(worker, 0)
"""


def test_a_worker_alone_is_no_rank_and_tells_of_none_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the variables of its rank; its brothers are no ranks of the launcher."""
    monkeypatch.chdir(tmp_path)
    place = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}
    with program(RANK_WITH_WORKER, tmp_path, **place) as rank:
        worker = int((tmp_path / "worker").read_text())
        try:
            alone = hang(worker, "--samples", 1)
            both = hang(worker, rank.pid, "--samples", 1)
        finally:
            os.kill(worker, signal.SIGKILL)
    assert alone["missing_local_ranks"] == []
    assert [row["rank"] for row in alone["processes"]] == [None]
    assert "rank_missing" not in [row["id"] for row in alone["diagnoses"]]
    assert [row["rank"] for row in both["processes"] if row["works_for"] is None] == [1]


@pytest.mark.parametrize("options", [(), ("--no-stop",)])
def test_a_stopped_process_stays_stopped(tmp_path: Path, options: tuple[str, ...]) -> None:
    with program(PIPE, tmp_path) as child:
        child.send_signal(signal.SIGSTOP)
        until(lambda: state(child.pid) == "T", "it is stopped")
        report = hang(child.pid, *options, code=1)
        assert state(child.pid) == "T"
        child.send_signal(signal.SIGCONT)
        until(lambda: state(child.pid) == "S", "it goes on")
    assert report["diagnoses"][0]["id"] == "process_stopped"
    assert report["diagnoses"][0]["confidence"] == "certain"
    assert own_lines(main_thread(report["processes"][0]))[0] == ("take", "job.py")


def test_a_traced_process_is_read_as_it_runs(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    with (
        program(PIPE, tmp_path) as child,
        subprocess.Popen(
            [strace, "-p", str(child.pid), "-o", str(tmp_path / "log")], stderr=subprocess.DEVNULL
        ) as tracer,
    ):
        path = Path(f"/proc/{child.pid}/status")
        until(lambda: f"TracerPid:\t{tracer.pid}\n" in path.read_text(), "it is traced")
        until(lambda: channel_is(child.pid, "0", "63"), "it reads on")
        report = hang(child.pid)
        assert f"TracerPid:\t{tracer.pid}\n" in path.read_text()
        tracer.send_signal(signal.SIGINT)
        tracer.wait(_SECONDS)
    assert own_lines(main_thread(report["processes"][0]))[0] == ("take", "job.py")
    assert any(f" pid {tracer.pid}" in row["what"] for row in report["problems"])


COMES_TO_HANG = """
import os, time
print("ready", flush=True)
def work():
    while not os.path.exists(__file__ + ".seen"):
        time.sleep(0.001)
reader, writer = os.pipe()
work()
def take():
    os.read(reader, 1)
if not os.environ.get("ENDS"):
    take()
"""


@pytest.fixture
def once_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program work until it was looked at once."""

    def wait(seconds: float) -> None:
        (tmp_path / "job.py.seen").touch()
        time.sleep(seconds)

    monkeypatch.setattr("postmortem.analyses.hang.time", SimpleNamespace(sleep=wait))


@pytest.mark.usefixtures("once_seen")
def test_watched_until_it_hangs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with program(COMES_TO_HANG, tmp_path) as child:
        assert main(["hang", str(child.pid), "--watch", "2", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    validate(report)
    assert report["diagnoses"][0]["id"] == "process_waits"
    assert report["gap_seconds"] == 2


@pytest.mark.usefixtures("once_seen")
def test_watched_until_it_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with program(COMES_TO_HANG, tmp_path, ENDS="1") as child:
        assert main(["hang", str(child.pid), "--watch", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["problems"][-1]["where"] == "hang --watch"


def test_pids_that_are_gone(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    done = call("hang", gone.pid)
    assert done.returncode == 3
    assert f"postmortem: pid {gone.pid}: " in done.stderr
    with program(PIPE, tmp_path) as child:
        report = hang(child.pid, gone.pid)
    assert [row["pid"] for row in report["processes"]] == [child.pid]
    assert report["problems"][0]["where"] == f"pid {gone.pid}"


def test_a_zombie() -> None:
    with subprocess.Popen(["true"]) as dead:
        until(lambda: state(dead.pid) == "Z", "it has ended")
        done = call("hang", dead.pid)
        assert done.returncode == 3
        assert f"postmortem: pid {dead.pid}: " in done.stderr
        assert f" pid {os.getpid()}" in done.stderr


def test_no_job_of_that_name() -> None:
    done = call("hang", "--job", "no-such-job-of-anybody")
    assert done.returncode == 3
    assert "no-such-job-of-anybody" in done.stderr


@pytest.mark.parametrize("name", ["", " ", "\t"])
def test_an_empty_job_is_not_every_process(name: str) -> None:
    done = call("hang", "--job", name)
    assert done.returncode == 2
    assert " --job: " in done.stderr


@pytest.mark.parametrize(
    "name", ["SLURM_JOB_ID", "SLURM_JOB_NAME", "TORCHELASTIC_RUN_ID", "command line"]
)
def test_a_job_by_its_name(tmp_path: Path, name: str) -> None:
    value = f"job-{os.getpid()}-{name.replace(' ', '')}"
    env = {} if name == "command line" else {name: value}
    with program(PIPE, tmp_path, *([value] if not env else []), **env) as child:
        report = hang("--job", value, "--samples", 1)
    assert [row["pid"] for row in report["processes"]] == [child.pid]


def test_two_jobs_are_kept_apart(tmp_path: Path) -> None:
    """Rank 1 of job b is not what the ranks of job a wait for."""
    text = "import time\nprint('ready', flush=True)\ntime.sleep(1000)\n"
    with ExitStack() as jobs:
        pids: dict[str, list[int]] = {"a": [], "b": []}
        for port, (name, found) in enumerate(pids.items(), 29500):
            for rank in "01":
                one = {"RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank}
                given = {"MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": name}
                child = jobs.enter_context(program(text, tmp_path, **one, **given))
                found.append(child.pid)
        both = call("hang", *pids["a"], *pids["b"])
        assert both.returncode == 3
        assert "ranks of 2 jobs" in both.stderr
        for name, found in pids.items():
            assert " ".join(map(str, found)) in both.stderr
            of_one = hang("--job", name, "--samples", "1")
            assert [one["pid"] for one in of_one["processes"]] == found
            assert hang(*found, "--samples", "1")["processes"]


def test_of_another_user(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    with program(PIPE, tmp_path) as child:
        until(lambda: channel_is(child.pid, "0", "63"), "it reads the pipe")
        # Once as root, so that all modules are loaded: another user may not read this folder.
        run = (
            "import os, sys; from postmortem.cli.main import main; "
            "main([*sys.argv[1:], '-o', '/dev/null']); "
            "os.setgroups([]); os.setgid(65534); os.setuid(65534); sys.exit(main(sys.argv[1:]))"
        )
        done = execute(
            [sys.executable, "-c", run, "hang", str(child.pid), "--engine", "native"], cwd="/"
        )
        assert state(child.pid) == "S"
    assert done.returncode == 3, done.stdout
    line, hint = done.stderr.splitlines()
    assert line.startswith(f"postmortem: pid {child.pid}: ")
    assert hint.endswith(f"postmortem hang {child.pid}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nobody_is_left_stopped_whenever_it_ends(tmp_path: Path, number: int) -> None:
    """Ended again and again while it reads, sample after sample, without a pause."""
    with program(PIPE, tmp_path) as child:
        for wait in (0.3, 0.5, 0.7):
            line = [sys.executable, "-m", "postmortem", "hang", str(child.pid)]
            with subprocess.Popen(
                [*line, "--samples", "100", "--gap", "0.001"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as reader:
                time.sleep(wait)
                reader.send_signal(number)
                reader.wait(_SECONDS)
            until(lambda: state(child.pid) == "S", "it goes on")
        path = Path(f"/proc/{child.pid}/status")
        until(lambda: "TracerPid:\t0\n" in path.read_text(), "nobody traces it")


LIBRARY = """
import ctypes, os, sys
ctypes.CDLL(sys.argv[1])
os.unlink(sys.argv[1])
os.mkfifo(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""


def tracer(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("TracerPid:")[2].split()[0])


@pytest.mark.skipif(not (shutil.which("gdb") and shutil.which("cc")), reason="needs gdb and cc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ended_while_gdb_waits_for_a_fifo(tmp_path: Path, number: int) -> None:
    """Its library is a FIFO now: gdb opens it, and waits forever with the process stopped."""
    source, library = tmp_path / "lib.c", tmp_path / "lib.so"
    source.write_text("int nothing;")
    subprocess.run(["cc", "-shared", "-o", library, source], check=True)
    with program(LIBRARY, tmp_path, str(library)) as child:
        line = [sys.executable, "-m", "postmortem", "hang", str(child.pid), "--engine", "gdb"]
        with subprocess.Popen(
            [*line, "--deadline", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as reader:
            until(lambda: state(child.pid) == "t" or reader.poll() is not None, "it is stopped")
            assert reader.poll() is None
            gdb = tracer(child.pid)
            waits = ("wait_for_partner", "fifo_open")  # fs/pipe.c; "0": the kernel does not say
            channel = Path(f"/proc/{gdb}/wchan")
            until(lambda: channel.read_text() in (*waits, "0") and state(gdb) == "S", "gdb waits")
            assert state(child.pid) == "t"
            reader.send_signal(number)
            reader.wait(_SECONDS)
        until(lambda: state(child.pid) == "S" and tracer(child.pid) == 0, "it goes on")
        until(lambda: not Path(f"/proc/{gdb}").exists(), "gdb is gone")


@pytest.mark.skipif(not shutil.which("gdb"), reason="needs gdb")
def test_killed_at_any_time_while_gdb_reads(tmp_path: Path) -> None:
    with program(PIPE, tmp_path) as child:
        for wait in (0.2, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.8):
            line = [sys.executable, "-m", "postmortem", "hang", str(child.pid), "--engine", "gdb"]
            with subprocess.Popen(
                [*line, "--samples", "100", "--gap", "0.001"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as reader:
                time.sleep(wait)
                reader.kill()
                reader.wait(_SECONDS)
            until(lambda: state(child.pid) == "S" and tracer(child.pid) == 0, "it goes on")


def test_other_engines(tmp_path: Path) -> None:
    with program(PIPE, tmp_path) as child:
        until(lambda: channel_is(child.pid, "0", "63"), "it reads the pipe")
        for engine in ("py-spy", "gdb"):
            if shutil.which(engine) is None:
                continue
            report = hang(child.pid, "--engine", engine, "--samples", 1, "--deadline", 60)
            (process,) = report["processes"]
            assert process["read_by"] == engine, report["problems"]
            until(lambda: state(child.pid) == "S", "it goes on")
            functions = [frame["function"] for frame in main_thread(process)["frames"]]
            assert ("take" if engine == "py-spy" else "read") in " ".join(functions)
        report = hang(child.pid, "--engine", "proc", "--samples", 1)
    assert report["processes"][0]["read_by"] == "none"
    assert main_thread(report["processes"][0])["system_call"]["name"] == "read"


FAKE = """#!/bin/sh
kill -STOP $5 2>/dev/null || kill -STOP $4
exec sleep 1000
"""


def test_a_tool_that_hangs_with_the_process_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "py-spy"
    tool.parent.mkdir()
    tool.write_text(FAKE)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    with program(PIPE, tmp_path) as child:
        report = hang(child.pid, "--engine", "py-spy", "--samples", 1, "--deadline", 1)
        until(lambda: state(child.pid) == "S", "it goes on")
    assert any(" within 1 s" in row["what"] for row in report["problems"])


HANDLED = "import faulthandler, signal\nfaulthandler.register(signal.SIGUSR1)\n" + PIPE


def test_a_signal_that_is_handled_and_one_that_would_kill(tmp_path: Path) -> None:
    script = tmp_path / "handled.py"
    script.write_text(HANDLED)
    errors = tmp_path / "stderr"
    with (
        errors.open("w") as stream,
        subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=stream, text=True
        ) as child,
    ):
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            from postmortem.errors import EvidenceError
            from postmortem.readers.live.other_tools import by_signal

            dump = by_signal(child.pid, signal.SIGUSR1)
            assert dump.main_thread is not None
            assert dump.main_thread.frames[0].function == "take"
            with pytest.raises(EvidenceError, match="SIGUSR2"):
                by_signal(child.pid, signal.SIGUSR2)
            assert child.poll() is None
        finally:
            child.kill()


@pytest.mark.parametrize(("kind", "slow"), [("even", []), ("slow", [1]), ("stuck", [])])
def test_only_who_is_slow_is_called_so(
    kind: str, slow: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [SCRIPTS / "some_ranks.py", "3", sys.executable, SCRIPTS / "meeting_ranks.py", kind]
    with subprocess.Popen([sys.executable, *words]) as launcher:
        try:
            until(lambda: len(list(tmp_path.glob("steps.*"))) == 3, "all meet")
            report = hang(launcher.pid, "--samples", "20", "--gap", "0.3")
        finally:
            launcher.terminate()
    found = [one["about"]["rank"] for one in report["diagnoses"] if one["id"] == "rank_slow"]
    assert found == slow


class Job:
    """Three ranks in training, of which rank 1 can be told to hang, and to go on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_usable = True
        os.mkfifo(folder / "gate")
        line = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        line += ["--nproc-per-node", "3", str(PROGRAMS / "ranks.py"), "1", str(folder)]
        env = dict(os.environ) | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPTS / "quick")}
        with (folder / "log").open("wb") as log:
            self.launcher = subprocess.Popen(line, stdout=log, stderr=log, env=env)
        ready = [folder / f"ready{rank}" for rank in range(3)]
        until(lambda: not self.runs() or all(map(_whole, ready)), "the ranks train")
        assert self.runs(), (folder / "log").read_text()
        self.pids = [int(path.read_text()) for path in ready]

    def runs(self) -> bool:
        return self.launcher.poll() is None

    @contextmanager
    def told(self, kind: str) -> Iterator[None]:
        """Rank 1 does something else in the block, and goes on behind it."""
        self.is_usable = False
        (self.folder / "order").write_text(kind)
        yield
        # Opened for both: a rank that has failed reads nothing, and this would wait for it forever.
        gate = os.open(self.folder / "gate", os.O_RDWR)
        if kind in ("fifo", "loader"):
            os.write(gate, b".")
        else:
            os.kill(self.pids[1], signal.SIGUSR1)
        until((self.folder / "over").exists, "rank 1 goes on")
        os.close(gate)
        (self.folder / "over").unlink()
        self.is_usable = True

    def end(self) -> None:
        for path in self.folder.glob("ready*"):
            try:
                os.kill(int(path.read_text()), signal.SIGKILL)
            except (OSError, ValueError):
                continue
        self.launcher.terminate()
        self.launcher.wait(_SECONDS)


@pytest.fixture(scope="module")
def started() -> Iterator[list[Job]]:
    """The jobs of this module."""
    jobs: list[Job] = []
    yield jobs
    for job in jobs:
        job.end()


@pytest.fixture
def job(started: list[Job], tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job whose ranks all train: the one of the last test, if that has left it so."""
    needs_torch()
    if not started or not started[-1].is_usable:
        started.append(Job(tmp_path_factory.mktemp("job")))
    return started[-1]


def _whole(path: Path) -> bool:
    return path.exists() and bool(path.read_text())


STUCK = {
    "lock": ("take_lock", ("202", "98")),
    "fifo": ("read_fifo", ("257", "56")),
    "native": ("call_native", ("34", "73", "133")),
    "loader": ("load_batch", ("7", "73")),
    "busy": ("compute", ("running",)),
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", list(STUCK))
def test_the_rank_that_holds_up_the_others(job: Job, kind: str, tmp_path: Path) -> None:
    function, calls = STUCK[kind]
    pids = job.pids
    out = tmp_path / "hang.json"
    with job.told(kind):
        until(lambda: channel_is(pids[1], *calls), "rank 1 is there")
        for pid in (pids[0], pids[2]):  # they wait for it in gloo
            until(lambda pid=pid: channel_is(pid, "202", "98"), "the others wait")
        done = call("hang", job.launcher.pid, "--json", "-o", out, "--gap", "2")
        assert all(state(pid) in "SR" for pid in pids)
    assert done.returncode == 1, done.stderr
    report = json.loads(out.read_text())
    validate(report)
    best = report["diagnoses"][0]
    assert best["id"] == "rank_holds_up"
    assert best["confidence"] != "certain"
    assert [(row["rank"], row["pid"]) for row in report["stuck"]] == [(1, pids[1])]
    assert any(function in row["what"] for row in best["evidence"])
    ranks = {row["rank"]: row["pid"] for row in report["processes"] if row["works_for"] is None}
    assert ranks == dict(enumerate(pids))
    (blamed,) = [row for row in report["processes"] if row["pid"] == pids[1]]
    if kind == "busy":
        assert function in [call["function"] for call in blamed["hot_path"]["calls"]]
    else:
        assert blamed["hot_path"] is None
    if kind == "loader":
        (worker,) = [row for row in report["processes"] if row["works_for"] == pids[1]]
        assert worker["role"] == "DataLoader worker"
        assert ("read_fifo", "ranks.py") in own_lines(main_thread(worker))
    _read_with_logs(out, pids)


def _read_with_logs(out: Path, pids: list[int]) -> None:
    """The JSON lies in a folder, and ``postmortem logs`` reads it with what else is there."""
    (out.parent / "rank0.log").write_text("step 1\nstep 2\n")
    document = report("logs", out.parent)
    assert document["decided_by"] == "stack"
    assert document["first_failure"]["rank"] == 1


@pytest.mark.timeout(400)
def test_a_healthy_job(job: Job) -> None:
    report = hang(job.launcher.pid, "--gap", 3, code=0)
    assert report["outcome"] == "healthy"
    assert report["stuck"] == []


@pytest.mark.timeout(400)
def test_a_rank_that_is_gone(job: Job) -> None:
    """The others and the launcher would see it within moments; stopped, they cannot."""
    pids = job.pids
    job.is_usable = False
    others = [pids[0], pids[2], job.launcher.pid]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: all(state(pid) == "T" for pid in others), "they are stopped")
        os.kill(pids[1], signal.SIGKILL)
        until(lambda: state(pids[1]) == "Z", "it has ended")
        report = hang(job.launcher.pid, "--samples", 1, code=1)
        assert [state(pid) for pid in others] == ["T", "T", "T"]
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)
    assert "rank_missing" in {row["id"] for row in report["diagnoses"]}
    assert report["missing_local_ranks"] == [1]
    assert report["zombies"] == [pids[1]]
