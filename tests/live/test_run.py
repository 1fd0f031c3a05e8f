"""`postmortem run` with real commands: what they see is what they saw, and what they leave."""

import contextlib
import json
import os
import pty
import resource
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.commands import report
from builders.manifests import told, traceback
from builders.terminals import job_runs

pytestmark = pytest.mark.usefixtures("place")

RUN = [sys.executable, "-m", "postmortem", "run"]
PYTHON = sys.executable


def run(*words: str, **named: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command under watch."""
    return subprocess.run([*RUN, *words], capture_output=True, timeout=90, check=False, **named)


def folder() -> Path:
    """Return the one folder that was left."""
    (found,) = Path.cwd().glob("postmortem-*")
    return found


def manifest() -> dict[str, Any]:
    """Return what the folder that was left says of itself."""
    document: dict[str, Any] = json.loads((folder() / "manifest.json").read_text())
    return document


def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


def state(pid: int) -> str:
    """Return the state of a process; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return ""


def nothing_left(place: Path) -> bool:
    """Return whether neither the folder of a run nor evidence of one is left."""
    return not list(place.iterdir()) and not list(Path(os.environ["TMPDIR"]).iterdir())


# --- what a command sees and says


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_status_is_the_commands(status: int, place: Path) -> None:
    done = run("--", "sh", "-c", f"exit {status}")
    assert done.returncode == status
    assert nothing_left(place) == (status == 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT])
def test_signal_is_told_as_a_shell_does(number: signal.Signals) -> None:
    done = run("--", "sh", "-c", f"ulimit -c 0; kill -{number.value} $$")
    assert done.returncode == 128 + number


def test_output_is_the_same_byte_for_byte(place: Path) -> None:
    program = "import sys,os; os.write(1, bytes(range(256))*999); os.write(2, b'\\xff\\0err')"
    bare = subprocess.run([PYTHON, "-c", program], capture_output=True, check=True)
    done = run("--", PYTHON, "-c", program)
    assert (done.stdout, done.stderr) == (bare.stdout, bare.stderr)
    assert nothing_left(place)


def test_standard_error_of_a_failure_comes_first_and_unchanged() -> None:
    program = "import sys; sys.stderr.buffer.write(b'\\xfe'); [][1]"
    bare = subprocess.run([PYTHON, "-c", program], capture_output=True, check=False)
    done = run("--", PYTHON, "-c", program)
    assert done.returncode == 1
    assert done.stderr.startswith(bare.stderr)
    assert done.stderr[len(bare.stderr) :].startswith(b"postmortem: IndexError: ")


def test_standard_input_is_the_commands() -> None:
    done = run("--", "cat", input=b"\x80in")
    assert (done.returncode, done.stdout) == (0, b"\x80in")


def test_options_of_the_command_are_its_own() -> None:
    done = run("--timeout", "60", "--", "echo", "--timeout", "1", "--", "-v")
    assert done.stdout == b"--timeout 1 -- -v\n"


def test_command_without_the_two_dashes() -> None:
    assert run("sh", "-c", "exit 5").returncode == 5


@pytest.mark.parametrize(("shell", "status"), [("", 0), ("set -o pipefail; ", 1)])
def test_a_pipeline_of_a_shell(shell: str, status: int, place: Path) -> None:
    words = ["bash", "-c", f"{shell}{PYTHON} -c 'print(1); [][3]' | tr 1 2"]
    done = run("--", *words)
    assert (done.returncode, done.stdout) == (status, b"2\n")
    assert bool(list(place.iterdir())) == bool(status)


def test_readers_of_output_see_its_end_when_the_command_closes_it(place: Path) -> None:
    with subprocess.Popen(
        [*RUN, "--", "sh", "-c", "echo one; exec >&-; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        assert running.stdout.read() == b"one\n"
        assert running.poll() is None
        running.stdin.close()


def test_pipe_whose_reader_goes_away_ends_the_command() -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            'set -o pipefail; "$@" yes | head -1; exit ${PIPESTATUS[0]}',
            "-",
            *RUN,
            "--",
        ],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b"y\n"
    assert done.returncode == 128 + signal.SIGPIPE


def test_environment_of_the_user_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "7")
    monkeypatch.setenv("CUDA_COREDUMP_FILE", "/mine")
    names = "NCCL_DEBUG NCCL_DEBUG_FILE TORCH_FR_BUFFER_SIZE CUDA_COREDUMP_FILE"
    names += " CUDA_ENABLE_COREDUMP_ON_EXCEPTION"
    program = f"import os; print([os.environ.get(n) for n in '{names}'.split()])"
    assert eval(run("--", PYTHON, "-c", program).stdout) == ["INFO", None, "7", "/mine", None]


def test_descriptors_keep_their_numbers() -> None:
    program = "import os; print(os.open('/dev/null', 0))"
    bare = subprocess.run([PYTHON, "-c", program], capture_output=True, check=True)
    assert run("--", PYTHON, "-c", program).stdout == bare.stdout


def test_signals_that_are_ignored_stay_so_and_no_others() -> None:
    show = ["grep", "SigIgn", "/proc/self/status"]
    bare = subprocess.run(show, capture_output=True, check=True)
    assert run("--", *show).stdout == bare.stdout
    nohup = ["sh", "-c", 'trap "" HUP; "$@"', "-"]
    bare = subprocess.run([*nohup, *show], capture_output=True, check=True)
    done = subprocess.run([*nohup, *RUN, "--", *show], capture_output=True, check=True)
    assert done.stdout == bare.stdout


# --- commands that cannot be


def test_command_that_is_not_there(place: Path) -> None:
    done = run("--", "no-such-command-here")
    assert done.returncode == 127
    assert done.stderr == b"postmortem: no-such-command-here: command not found\n"
    assert nothing_left(place)


def test_command_that_is_not_executable(place: Path) -> None:
    (place / "file").write_text("x")
    done = run("--", "./file")
    assert done.returncode == 126
    assert b"permission denied" in done.stderr


def test_script_without_a_first_line_is_run_by_the_shell(place: Path) -> None:
    (place / "script").write_text("exit 9\n")
    (place / "script").chmod(0o700)
    assert run("--", "./script").returncode == 9


def test_no_command_is_a_usage_error() -> None:
    assert run().returncode == 2
    assert run("--").returncode == 2


# --- terminals and signals


@contextlib.contextmanager
def on_terminal(*command: str) -> Iterator[tuple[int, int]]:
    """Run a command on a terminal of its own; its pid and our end."""
    pid, end = pty.fork()
    if pid == 0:
        try:
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    try:
        yield pid, end
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(end)


def read_until(end: int, words: bytes, seconds: float = 60.0) -> bytes:
    """Return what a terminal shows until some words stand there."""
    shown = b""
    limit = time.monotonic() + seconds
    while words not in shown:
        assert time.monotonic() < limit, shown
        if select.select([end], [], [], 0.1)[0]:
            try:
                shown += os.read(end, 4096)
            except OSError:
                break
    return shown


def test_terminal_stays_a_terminal() -> None:
    program = "import os,sys; print([os.isatty(n) for n in range(3)], os.ttyname(1) != '')"
    with on_terminal(*RUN, "--", PYTHON, "-c", program) as (pid, end):
        assert b"[True, True, True] True" in read_until(end, b"] True")
        assert os.waitpid(pid, 0)[1] == 0


def test_ctrl_c_reaches_the_command_once_and_leaves_nothing(place: Path) -> None:
    program = (
        "import signal,time,sys\ncount=[]\nsignal.signal(2, lambda *a: count.append(1))\n"
        "print('ready', flush=True)\nend=time.time()+1.5\n"
        "while not count: time.sleep(.01)\ntime.sleep(1)\nprint('got', len(count))\nsys.exit(130)"
    )
    with on_terminal(*RUN, "--", PYTHON, "-c", program) as (pid, end):
        read_until(end, b"ready")
        os.write(end, b"\x03")
        assert b"got 1" in read_until(end, b"got 1")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert not list(place.iterdir())


def test_interrupted_python_ends_by_the_signal(place: Path) -> None:
    program = "import time; print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen([*RUN, "--", PYTHON, "-c", program], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 128 + signal.SIGINT
    assert nothing_left(place)


def counting(number: int) -> str:
    """Return a program that counts a signal for a while."""
    return (
        f"import signal,time,sys\ncount=[]\nsignal.signal({number}, lambda *a: count.append(1))\n"
        "print('ready', flush=True)\nwhile not count: time.sleep(.01)\n"
        "time.sleep(1)\nprint('got', len(count), flush=True)"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
@pytest.mark.parametrize("group", [False, True], ids=["to run alone", "to the group"])
def test_signals_reach_the_command_once(number: signal.Signals, group: bool) -> None:
    with subprocess.Popen(
        [*RUN, "--", PYTHON, "-c", counting(number)], stdout=subprocess.PIPE, start_new_session=True
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        time.sleep(0.3)
        (os.killpg if group else os.kill)(running.pid, number)
        assert running.stdout.readline() == b"got 1\n"
        assert running.wait(60) == 0


def test_command_that_ignores_sigterm_lives_on() -> None:
    program = "trap '' TERM; echo ready; read line; exit 4"
    with subprocess.Popen(
        [*RUN, "--", "sh", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        running.stdout.readline()
        running.terminate()
        time.sleep(0.5)
        assert running.poll() is None
        running.stdin.write(b"x\n")
        running.stdin.close()
        assert running.wait(60) == 4


def test_ctrl_z_stops_both_and_continue_wakes_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PS1", "prompt> ")
    # No shell: a stop may find it in vfork(2), where it waits for a child that is stopped, too. And
    # the words that are waited for are not in what the terminal echoes.
    program = "import time; print('rea' + 'dy', flush=True); time.sleep(60)"
    with on_terminal("bash", "--norc", "-i") as (shell, end):
        read_until(end, b"prompt> ")
        os.write(end, " ".join([*RUN, "--", PYTHON, "-c", f'"{program}"']).encode() + b"\n")
        read_until(end, b"ready")
        os.write(end, b"\x1a")
        assert b"Stopped" in read_until(end, b"prompt> ")
        os.write(end, b"fg\n")
        job_runs(shell)
        os.write(end, b"\x03")
        read_until(end, b"prompt> ")
        os.write(end, b"echo status''= $?\n")
        assert b"status= 130" in read_until(end, b"status= 130")


def test_stop_of_the_command_alone_is_no_trap(place: Path) -> None:
    """Who stops the command by TSTP and wakes it again wakes us, too."""
    with subprocess.Popen(
        [*RUN, "--", "sh", "-c", "echo $$; while ! [ -e go ]; do sleep 0.05; done; exit 6"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        time.sleep(0.3)
        os.kill(pid, signal.SIGTSTP)
        # In a group that no shell controls the kernel may leave it running: then nobody stops.
        time.sleep(0.5)
        os.kill(pid, signal.SIGCONT)
        (place / "go").touch()
        assert running.wait(60) == 6


def test_killed_supervisor_leaves_the_command_alone(place: Path) -> None:
    program = "echo $$; while ! [ -e go ]; do sleep 0.05; done; echo done >result"
    with subprocess.Popen([*RUN, "--", "sh", "-c", program], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        time.sleep(0.3)
        running.kill()
        running.wait(60)
        assert state(pid) in ("S", "R")
        (place / "go").touch()
        until((place / "result").exists)


# --- what is left of a failure


RAISES = """
import sys
def inner(batch, api_token):
    return batch / 0
def outer():
    items, password = [1, 2, 3], "hunter2hunter2"
    return inner(len(items), password)
outer()
"""


def test_exception_is_told_with_the_values_of_its_frames(place: Path) -> None:
    (place / "program.py").write_text(RAISES)
    done = run("--", PYTHON, "program.py")
    assert done.returncode == 1
    said = manifest()
    assert told(said) == ([], ["raised"])
    assert traceback(said) == ("ZeroDivisionError", "division by zero", 4, "inner")
    assert (said["status"], said["explained_by"]) == (1, "logs")
    (path,) = (folder() / "raises").iterdir()
    raised = json.loads(path.read_text())
    assert raised["where"] == "main"
    assert raised["frames"][-1]["locals"] == {"batch": "3", "api_token": "[masked]"}
    assert raised["frames"][-2]["locals"]["items"] == "list of 3: 1, 2, 3"
    assert "[masked]" in (folder() / "report.txt").read_text()
    for file in folder().rglob("*"):
        assert file.is_dir() or b"hunter2hunter2" not in file.read_bytes()


def test_the_folder_that_a_checkpoint_was_meant_for_is_filled_in(place: Path) -> None:
    said = "PytorchStreamWriter failed writing file data/1: file write failed"
    text = f"def save(step, path):\n    raise RuntimeError({said!r})\nsave(3, '/shards/7/a.pt')\n"
    (place / "program.py").write_text(text)
    run("--", PYTHON, "program.py")
    assert "df -h /shards/7;" in (folder() / "report.txt").read_text()


def test_manifest_lists_what_is_there(place: Path) -> None:
    run("--", PYTHON, "-c", "1/0")
    said = manifest()
    listed = {row["path"] for row in said["files"]}
    there = {str(f.relative_to(folder())) for f in folder().rglob("*") if f.is_file()}
    assert listed == there - {"manifest.json"}
    assert all(row["what"] for row in said["files"])
    (process,) = said["processes"]
    assert process["exit"] == {"code": 1, "signal": None}
    assert process["raised"]
    assert [event["kind"] for event in said["events"]] == ["raised"]


def test_folder_of_a_single_program_has_no_ranks(place: Path) -> None:
    run("--", PYTHON, "-c", "1/0")
    found = report("triage", folder())
    assert [(one["type"], one["ranks"]) for one in found["roots"]] == [("raised", [])]
    used = {Path(one["path"]).name for one in found["evidence"] if one["used"]}
    assert used == {Path(one).name for one in map(str, (folder() / "logs").iterdir())}


def test_rerun_script_runs_it_again_without_us(place: Path) -> None:
    run("--", "sh", "-c", 'echo "$1" $POSTMORTEM_RUN; exit 7', "-", "a b'c")
    script = folder() / "rerun.sh"
    done = subprocess.run([script], capture_output=True, check=False, cwd="/")
    assert (done.returncode, done.stdout) == (7, b"a b'c\n")


def test_secrets_of_the_environment_are_masked_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnopqrstuvwxyz0123")
    run("--", PYTHON, "-c", "import os; raise ValueError('sent ' + os.environ['HF_TOKEN'])")
    for file in folder().rglob("*"):
        assert file.is_dir() or b"hf_abcdefghij" not in file.read_bytes()
    assert "[masked: HF_TOKEN]" in (folder() / "report.txt").read_text()


def test_secrets_in_a_message_are_masked_before_it_is_wrapped() -> None:
    message = f"{'step' * 6} docker login -u me -p hunter2hunter2hunter2 registry"  # wrapped at -p
    run("--", PYTHON, "-c", f"raise RuntimeError({message!r})")
    for file in folder().rglob("*"):
        text = b"" if file.is_dir() else file.read_bytes()
        assert b"hunter2" not in b"".join(text.split())


@pytest.mark.parametrize("before", [45, 80, 175, 485])
def test_secrets_in_a_message_are_masked_before_it_is_cut(before: int, place: Path) -> None:
    key = "LTAI" + "mHnclCSwu5fWd8Besaqm"
    message = "step " * (before // 5) + key
    (place / "job.py").write_text(f"said = {message!r}\nraise RuntimeError(said)\n")
    done = run("--", PYTHON, "job.py")
    said = done.stderr.replace(message.encode(), b"")  # what the command itself has said
    texts = [path.read_bytes() for path in folder().rglob("*") if path.is_file()]
    for text in (said, *texts):
        assert key[:9].encode() not in b"".join(text.split())


def test_packed_folder(place: Path) -> None:
    done = run("--pack", "--", PYTHON, "-c", "1/0")
    (archive,) = place.glob("*.tar.gz")
    assert str(archive).encode() in done.stderr
    with tarfile.open(archive) as opened:
        assert any(name.endswith("/manifest.json") for name in opened.getnames())


HOOKED = {
    "main": "raise KeyError('k')",
    "own hook": "import sys; sys.excepthook = lambda *a: print('mine'); raise KeyError('k')",
    "thread": "import threading\ndef f(): raise KeyError('k')\nt = threading.Thread(target=f)\n"
    "t.start(); t.join(); raise SystemExit(1)",
    "multiprocessing": "import multiprocessing as m\ndef f(): raise KeyError('k')\n"
    "if __name__ == '__main__':\n p = m.get_context(CONTEXT).Process(target=f)\n"
    " p.start(); p.join(); raise SystemExit(p.exitcode)",
}


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("main", ""),
        ("own hook", ""),
        ("thread", ""),
        ("multiprocessing", "fork"),
        ("multiprocessing", "spawn"),
        ("multiprocessing", "forkserver"),
    ],
)
def test_exceptions_are_seen_wherever_they_end(name: str, context: str, place: Path) -> None:
    (place / "program.py").write_text(HOOKED[name].replace("CONTEXT", repr(context)))
    bare = subprocess.run([PYTHON, "program.py"], capture_output=True, check=False)
    done = run("--", PYTHON, "program.py")
    assert done.returncode == bare.returncode == 1
    assert done.stdout == bare.stdout
    assert done.stderr.startswith(bare.stderr)
    said = manifest()
    assert told(said) == ([], ["raised"])
    assert traceback(said)[:2] == ("KeyError", "'k'")


def test_user_s_sitecustomize_runs_as_before(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = place.parent / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys; sys.mine = 5\n")
    monkeypatch.setenv("PYTHONPATH", f"{own}:{os.environ.get('PYTHONPATH', '')}")
    program = "import sys; print(sys.mine, sys.modules['sitecustomize'].__file__); print(sys.path)"
    bare = subprocess.run([PYTHON, "-c", program], capture_output=True, check=True)
    assert run("--", PYTHON, "-c", program).stdout == bare.stdout


def test_crash_is_told_with_its_python_stack(place: Path) -> None:
    (place / "program.py").write_text(
        "import ctypes, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "def boom():\n    ctypes.string_at(8)\nboom()\n"
    )
    done = run("--", PYTHON, "program.py")
    assert done.returncode == 128 + signal.SIGSEGV
    assert b"Fatal Python error" not in done.stderr.partition(b"postmortem: ")[0]
    (box,) = (folder() / "boxes").iterdir()
    assert "in boom" in box.read_text()
    assert manifest()["signal"] == signal.SIGSEGV


@pytest.mark.cores
def test_core_is_explained(place: Path) -> None:
    done = run("--", PYTHON, "-c", "import ctypes; ctypes.string_at(8)")
    assert done.returncode == 128 + signal.SIGSEGV
    said = manifest()
    assert said["explained_by"] == "core"
    assert told(said)[1][0] == "ctypes_call"
    assert said["cores"]["files"]


@pytest.mark.cores
def test_core_of_a_child_is_not_left_where_nothing_failed(place: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if soft != 0 or hard == 0:
        pytest.skip("cores are already on, or cannot be")
    program = f"{PYTHON} -c 'import os; os.abort()'; exit 0"
    assert run("--", "sh", "-c", program).returncode == 0
    assert nothing_left(place)


def test_first_of_several_exceptions_is_the_cause(place: Path) -> None:
    (place / "program.py").write_text(
        "import subprocess, sys\n"
        "if len(sys.argv) > 1: raise LookupError('the child')\n"
        "subprocess.run([sys.executable, __file__, 'x'], check=True)\n"
    )
    assert run("--", PYTHON, "program.py").returncode == 1
    said = manifest()
    assert told(said) == ([], ["raised"])
    assert traceback(said) == ("LookupError", "the child", 2, "<module>")


def test_silent_failure_is_called_unexplained() -> None:
    done = run("--", "sh", "-c", "echo why >&2; exit 3")
    assert done.returncode == 3
    assert manifest()["explained_by"] == "ending"
    assert b"exited with 3" in done.stderr


# --- hard cases


def test_command_that_forks_and_leaves(place: Path) -> None:
    done = run("--", "sh", "-c", "setsid sleep 300 >/dev/null 2>&1 </dev/null & echo $!")
    assert done.returncode == 0
    left = int(done.stdout)
    assert state(left) in ("S", "R")
    os.kill(left, signal.SIGKILL)
    assert nothing_left(place)


def test_orphans_are_reaped_while_the_command_runs() -> None:
    program = "(sleep 0.1 & echo $! >pid); while kill -0 $(cat pid) 2>&-; do sleep 0.05; done"
    assert run("--", "sh", "-c", program).returncode == 0


def test_a_run_within_a_run_is_the_command_itself(place: Path) -> None:
    done = run("--", *RUN, "--", PYTHON, "-c", "1/0")
    assert done.returncode == 1
    assert done.stderr.count(b"postmortem: ZeroDivisionError") == 1
    assert len(list(place.glob("postmortem-*"))) == 1


def probed_away(private: list[str]) -> bool:
    """Whether there are no mount namespaces, or this Python lies below what is covered in one."""
    probe = subprocess.run([*private, PYTHON, "-c", ""], capture_output=True, check=False)
    return probe.returncode != 0


def test_no_place_to_write(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is read-only, as in a container: the command runs as ever."""
    script = (
        "mount --make-rprivate / && mount -t tmpfs -o ro,size=16k none /tmp && "
        'mount -t tmpfs -o ro,size=16k none /dev/shm && cd / && exec "$@"'
    )
    monkeypatch.setenv("TMPDIR", "/nowhere")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    private = ["unshare", "-rm", "--propagation", "private", "sh", "-c", script, "-"]
    if probed_away(private):
        pytest.skip("no mount namespaces here, or this Python lies in /tmp")
    done = subprocess.run(
        [*private, *RUN, "--into", "/proc", "--", "sh", "-c", "echo out; exit 4"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, b"out\n")
    assert b"running without" in done.stderr


def test_read_only_root(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a hardened container: only /dev/shm can be written, and the failure is explained."""
    script = (
        "mount --rbind / /mnt && mount -o remount,bind,ro /mnt && cd /mnt && "
        "mount -t tmpfs none dev/shm && "
        'for one in tmp run var/tmp; do mount -t tmpfs -o ro none "$one" || exit 9; done && '
        'cd / && exec chroot /mnt "$@"'
    )
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    private = ["unshare", "-rm", "--propagation", "private", "sh", "-c", script, "-"]
    if probed_away(private):
        pytest.skip("no mount namespaces here, or this Python lies in /tmp")
    done = subprocess.run(
        [*private, *RUN, "--", PYTHON, "-c", "def f():\n    1 / 0\nf()"],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert b"postmortem: ZeroDivisionError" in done.stderr
    assert b"evidence: /dev/shm/postmortem-" in done.stderr


def test_full_disk(place: Path) -> None:
    """There is no room for evidence, nor for what the command writes: it fails as it would."""
    script = (
        "mount -t tmpfs -o size=64k none /tmp && mount -t tmpfs -o size=64k none /dev/shm && "
        "cat /dev/zero >/tmp/full 2>/dev/null; cat /dev/zero >/dev/shm/full 2>/dev/null; cd /tmp; "
        'exec "$@"'
    )
    private = ["unshare", "-rm", "--propagation", "private", "sh", "-c", script, "-"]
    if probed_away(private):
        pytest.skip("no mount namespaces here, or this Python lies in /tmp")
    done = subprocess.run(
        [*private, "env", "TMPDIR=/tmp", *RUN, "--", "sh", "-c", "echo out; exit 4"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, b"out\n")


def test_shell_around_a_rank_repeats_its_signal(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the number of the rank; which signal it was tells the process in the shell."""
    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setenv("SLURM_NTASKS", "2")
    program = "import os, time; time.sleep(4); os.kill(os.getpid(), 9)"
    done = run("--", "sh", "-c", f'{PYTHON} -c "{program}"; exit $?')
    assert done.returncode == 128 + signal.SIGKILL
    assert told(manifest()) == ([1], ["rank_crashed"])
    assert len((folder() / "endings.txt").read_text().splitlines()) == 1


def test_output_that_fills_its_disk(place: Path) -> None:
    """The command meets the full disk, and so does our word; its status is its own."""
    (place / "full").mkdir()
    program = "import sys\nwhile True:\n    print('x' * 100)\n"
    bare, watched = (
        in_namespace(
            f"mount -t tmpfs -o size=64k none full && {shlex.join(words)} >full/out 2>full/err"
        )
        for words in (
            [PYTHON, "-c", program],
            [*RUN, "--into", "left", "--", PYTHON, "-c", program],
        )
    )
    assert watched.returncode == bare.returncode != 0
    (left,) = (place / "left").iterdir()
    document = json.loads((left / "manifest.json").read_text())
    assert traceback(document)[:2] == ("OSError", "[Errno 28] No space left on device")


def test_without_proc(place: Path) -> None:
    program = "print(1); [][2]"
    done = in_namespace(
        f"mount -t tmpfs none /proc && {shlex.join([*RUN, '--', PYTHON, '-c', program])}"
    )
    assert (done.returncode, done.stdout) == (1, b"1\n")
    assert traceback(manifest())[:2] == ("IndexError", "list index out of range")


SLOW_TO_WRITE = """
import sys, time
from postmortem.analyses import hang
from postmortem.run import stacks
made = hang.report_on
hang.report_on = lambda *given: (time.sleep(stacks.LIMIT_SECONDS + 1), made(*given))[1]
import postmortem.__main__
"""


def test_stacks_that_are_read_are_written_however_busy_the_machine_is(place: Path) -> None:
    script = (
        f"RANK=0 WORLD_SIZE=2 {PYTHON} -c 'import time; time.sleep(100)' & sleep 1; "
        f"RANK=1 WORLD_SIZE=2 {PYTHON} -c '1 / 0'; status=$?; kill $!; exit $status"
    )
    words = [PYTHON, "-c", SLOW_TO_WRITE, "run", "--", "sh", "-c", script]
    done = subprocess.run(words, capture_output=True, timeout=100, check=False)
    assert done.returncode == 1, done.stderr
    stacks = json.loads((folder() / "stacks" / "failure-1.json").read_text())
    assert [one["rank"] for one in stacks["processes"]] == [0]


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_without_the_memory_of_others(place: Path) -> None:
    """Another rank may not be read, as in a container without the right to: the rest is told."""
    (place / "hidden.py").write_text(
        "import ctypes, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nopen('hidden', 'w').close()\n"
        "time.sleep(100)\n"
    )
    (place / "fails.py").write_text(
        "import os, time\nwhile not os.path.exists('hidden'): time.sleep(0.1)\n"
        "time.sleep(1)\n1 / 0\n"
    )
    script = (
        f"RANK=0 WORLD_SIZE=2 {PYTHON} hidden.py & RANK=1 WORLD_SIZE=2 {PYTHON} fails.py; "
        "status=$?; kill $!; exit $status"
    )
    rights = ["setpriv", "--bounding-set", "-sys_ptrace"] if os.geteuid() == 0 else []
    words = [*rights, *RUN, "--", "sh", "-c", script]
    done = subprocess.run(words, capture_output=True, timeout=100, check=False)
    assert done.returncode == 1, done.stderr
    assert told(manifest()) == ([1], ["rank_raised"])
    assert traceback(manifest())[0] == "ZeroDivisionError"
    (stacks,) = (folder() / "stacks").glob("failure-1.*")
    assert stacks.suffix == ".why" or "rank 0" in stacks.read_text()


def test_an_exception_whose_words_are_no_text(place: Path) -> None:
    program = (
        "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe\\n')\n"
        "raise ValueError(b'\\xff'.decode(errors='surrogateescape'))"
    )
    bare = subprocess.run([PYTHON, "-c", program], capture_output=True, check=False)
    done = run("--", PYTHON, "-c", program)
    assert done.returncode == 1
    assert done.stdout == bare.stdout == b"\xff\xfe\n"
    assert done.stderr.startswith(bare.stderr)
    assert traceback(manifest())[0] == "ValueError"


def in_namespace(words: str) -> subprocess.CompletedProcess[bytes]:
    """Run shell words in a mount namespace of their own; skip the test where there is none."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    unshare = ["unshare", "--mount", *rights, "sh", "-c"]
    if subprocess.run([*unshare, "mount -t tmpfs none /mnt"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    return subprocess.run([*unshare, words], capture_output=True, timeout=90, check=False)


def test_exception_of_a_program_that_has_used_up_its_descriptors(place: Path) -> None:
    program = "files = []\nwhile True:\n    files.append(open('/dev/null'))\n"
    words = ["sh", "-c", 'ulimit -n 64; exec "$@"', "-", PYTHON, "-c", program]
    assert run("--", *words).returncode == 1
    assert traceback(manifest())[:2] == ("OSError", "[Errno 24] Too many open files: '/dev/null'")


def test_the_folder_is_named_after_its_host(place: Path) -> None:
    """Containers share the folder above it, and have the same numbers for their processes."""
    run("--", "sh", "-c", "exit 1")
    assert f"-{socket.gethostname().partition('.')[0]}-" in folder().name


def test_a_thousand_processes(place: Path) -> None:
    program = (
        "import subprocess, time\nall = [subprocess.Popen(['sleep', '600']) for _ in range(1000)]\n"
        "time.sleep(8)\nfor one in all: one.kill()\nfor one in all: one.wait()\nraise SystemExit(2)"
    )
    done = run("--", PYTHON, "-c", program)
    assert done.returncode == 2
    assert len(manifest()["processes"]) == 1001


# --- options


@pytest.mark.parametrize("status", [128 + signal.SIGTERM, 0])
def test_timeout_says_where_it_stands(status: int, place: Path) -> None:
    handler = "" if status else "import signal, sys; signal.signal(15, lambda *_: sys.exit())\n"
    waiting = (
        "import threading\ndef wait_for_ever():\n    threading.Event().wait()\nwait_for_ever()\n"
    )
    (place / "program.py").write_text(handler + waiting)
    done = run("--timeout", "3", "--", PYTHON, "program.py")
    assert done.returncode == status
    said = manifest()
    assert said["timed_out"]
    assert "wait_for_ever" in (folder() / "stacks" / "timeout.txt").read_text()


def test_timeout_of_what_ignores_sigterm(place: Path) -> None:
    program = "trap '' TERM; while :; do sleep 0.2; done"
    assert run("--timeout", "1", "--", "sh", "-c", program).returncode == 128 + signal.SIGKILL
    said = manifest()
    assert (said["timed_out"], said["explained_by"]) == (True, "ending")


def test_repeat_folds_failures(place: Path) -> None:
    (place / "program.py").write_text(
        "import pathlib\np = pathlib.Path('count')\nn = int(p.read_text()) if p.exists() else 0\n"
        "p.write_text(str(n + 1))\n"
        "if n % 3 == 1: raise ValueError(f'step {n}')\nif n == 5: raise KeyError('other')\n"
    )
    done = run("--repeat", "7", "--", PYTHON, "program.py")
    assert done.returncode == 1
    assert (place / "count").read_text() == "7"
    assert b"3 of 7 runs failed, in 2 ways" in done.stderr
    assert b"2 of 7 (29%)" in done.stderr
    assert len(list(place.glob("postmortem-*"))) == 2


def test_a_signal_to_the_group_ends_all_repetitions(place: Path) -> None:
    command = [*RUN, "--repeat", "3", "--", "sh", "-c", "echo ready; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as running:
        assert running.stdout is not None
        running.stdout.readline()
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(30) == 128 + signal.SIGINT


def test_fresh_folder_is_emptied_before_each_run(place: Path) -> None:
    out = place / "out"
    (out / "old").mkdir(parents=True)
    done = run("--fresh", "out", "--repeat", "2", "--", "sh", "-c", "ls out; touch out/new")
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize("where", ["/", ".", ".."])
def test_fresh_refuses_what_holds_us(where: str) -> None:
    done = run("--fresh", where, "--", "true")
    assert done.returncode == 3
    assert done.stderr.startswith(b"postmortem: --fresh ")


def test_cpu_runs_again_and_compares(place: Path) -> None:
    program = "import os; v = os.environ.get('CUDA_VISIBLE_DEVICES'); "
    program += "raise ValueError('on GPU') if v is None else SystemExit(0)"
    env = {k: v for k, v in os.environ.items() if not k.endswith("VISIBLE_DEVICES")}
    done = run("--cpu", "--", PYTHON, "-c", program, env=env)
    assert done.returncode == 1
    assert b"--cpu: does not fail this way" in done.stderr
    assert (folder() / "again--cpu.txt").exists()


def test_sync_runs_again_and_fails_alike(place: Path) -> None:
    program = "import os; print(os.environ.get('CUDA_LAUNCH_BLOCKING')); raise ValueError(1)"
    done = run("--sync", "--", PYTHON, "-c", program)
    assert done.stdout == b"None\n1\n"
    assert b"--sync: fails in the same way" in done.stderr
    assert len(list(place.glob("postmortem-*"))) == 1


def test_sync_is_refused_where_nccl_would_hang(place: Path) -> None:
    packages = place / "packages" / "nvidia_nccl_cu11-2.14.3.dist-info"
    packages.mkdir(parents=True)
    (packages / "METADATA").write_text("Name: nvidia-nccl-cu11\nVersion: 2.14.3\n")
    path = f"{packages.parent}:{os.environ.get('PYTHONPATH', '')}"
    done = run("--sync", "--", "false", env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 3
    assert b"NCCL 2.14.3" in done.stderr


def test_strace_answers(place: Path) -> None:
    if subprocess.run(
        ["sh", "-c", "command -v strace"], capture_output=True, check=False
    ).returncode:
        pytest.skip("no strace")
    program = "exit $(( $(cat /nonexistent/file 2>/dev/null; echo 0) + 8 ))"
    done = run("--strace", "ENOENT", "--", "sh", "-c", program)
    assert done.returncode == 8
    assert b"/nonexistent/file" in (folder() / "report.txt").read_bytes()


@pytest.mark.parametrize("size", ["0", "-1G", "12Q", "x"])
def test_memory_sizes_that_are_none(size: str) -> None:
    assert run("--memory", size, "--", "true").returncode == 2


def test_memory_limit_is_kept_or_refused(place: Path) -> None:
    program = "import time; x = bytearray(400 << 20); time.sleep(1); print('had it')"
    done = run("--memory", "128M", "--", PYTHON, "-c", program)
    if done.returncode == 3:
        assert b"no way to limit" in done.stderr
        return
    assert done.returncode == 128 + signal.SIGKILL
    assert b"had it" not in done.stdout
    assert b"the memory limit was used up, the 128 MiB of --memory" in done.stderr
