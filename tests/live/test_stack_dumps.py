"""The readers of stack dumps, on what the real tools write of one live process."""

import faulthandler
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.commands import execute
from builders.processes import speaking
from postmortem.facts.stackdumps import StackDump
from postmortem.readers.stackdumps import looks_like_stacks, read_stack_dumps

PROGRAM = """
import sys, threading
def wait_for_ever(lock):
    lock.acquire()
def inner():
    print("ready", flush=True)
    sys.stdin.read()
def outer():
    inner()
lock = threading.Lock()
lock.acquire()
threading.Thread(target=wait_for_ever, args=(lock,), name="waiter", daemon=True).start()
outer()
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A process whose main thread is in inner(), called by outer()."""
    script = tmp_path_factory.mktemp("dumps") / "job.py"
    script.write_text(PROGRAM)
    with speaking(sys.executable, script, stdin=subprocess.PIPE) as (child, said):
        assert said.readline() == "ready\n"
        yield child


def output(*command: str) -> str:
    """What a tool prints; the test is skipped where it is missing or not let near the process."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        pytest.skip(f"{command[0]} could not read the process: {run.stderr.strip()[:200]}")
    return run.stdout


def the_one(text: str) -> StackDump:
    assert looks_like_stacks(text)
    (dump,) = read_stack_dumps(text, "dump.txt")
    return dump


def python_calls(dump: StackDump) -> list[list[tuple[str, str | None, int | None]]]:
    """Functions, file names and lines of the Python frames, thread by thread."""
    return [
        [
            (frame.function, frame.file.rpartition("/")[2] if frame.file else None, frame.line)
            for frame in thread.frames
            if frame.kind == "python"
        ]
        for thread in dump.threads
    ]


MAIN = [("inner", "job.py", 7), ("outer", "job.py", 9), ("<module>", "job.py", 13)]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_py_spy(process: subprocess.Popen[str], options: tuple[str, ...]) -> None:
    dump = the_one(output("py-spy", "dump", "--pid", str(process.pid), *options))
    assert dump.tool == "py-spy"
    assert dump.main_thread is not None
    assert dump.main_thread.tid == process.pid == dump.pid
    assert MAIN in python_calls(dump)
    assert python_calls(dump)[dump.main or 0] == MAIN
    assert dump.tells_running
    assert process.pid not in dump.running  # it waits for its standard input
    waiter = next(t for t in dump.threads if t.python_name and "waiter" in t.python_name)
    assert waiter.frames[0].function == "wait_for_ever"


def test_pystack(process: subprocess.Popen[str]) -> None:
    dump = the_one(output("pystack", "remote", "--native-all", str(process.pid)))
    assert dump.tool == "pystack"
    assert dump.main_thread is not None
    assert dump.main_thread.tid == process.pid
    assert python_calls(dump)[dump.main or 0] == MAIN
    assert any(frame.kind == "native" for frame in dump.main_thread.frames)
    assert dump.main_thread.frames[0].kind == "native"  # the innermost is in the C library


def test_gdb(process: subprocess.Popen[str]) -> None:
    gdb = "gdb" if Path("/usr/bin/gdb").exists() else "no-gdb"
    commands = ("-ex", "thread apply all bt")
    dump = the_one(output(gdb, "-nx", "-batch", "-p", str(process.pid), *commands))
    assert dump.tool == "gdb"
    assert dump.main_thread is not None
    assert dump.main_thread.tid == process.pid == dump.pid
    names = [frame.function for frame in dump.main_thread.frames]
    assert any("read" in name for name in names[:3])
    assert not any("(" in name or " at " in name for name in names)


def test_faulthandler(tmp_path: Path) -> None:
    ready, leave = threading.Event(), threading.Event()

    def waits() -> None:
        ready.set()
        leave.wait()

    thread = threading.Thread(target=waits)
    thread.start()
    ready.wait()
    with (tmp_path / "dump.txt").open("w+") as file:
        faulthandler.dump_traceback(file)
        faulthandler.dump_traceback(file)
        file.seek(0)
        text = file.read()
    leave.set()
    thread.join()
    dumps = read_stack_dumps(text, "dump.txt")
    assert [dump.tool for dump in dumps] == ["faulthandler"] * 2
    for dump in dumps:
        assert dump.main_thread is not None
        assert dump.main_thread.frames[0].function == "test_faulthandler"
        assert any(t.frames and "wait" in t.frames[0].function for t in dump.threads[:-1])


def test_our_own_json(process: subprocess.Popen[str], tmp_path: Path) -> None:
    gcore = shutil.which("gcore") or pytest.skip("gcore is not installed")
    made = execute([str(gcore), "-o", str(tmp_path / "core"), str(process.pid)])
    if made.returncode != 0:
        pytest.skip(f"gcore could not read the process: {made.stderr.strip()[-200:]}")
    core = tmp_path / f"core.{process.pid}"
    run = execute(
        [sys.executable, "-m", "postmortem", "core", str(core), "--engine", "native", "--json"]
    )
    dump = the_one(run.stdout)
    assert dump.tool == "postmortem"
    assert dump.main_thread is not None
    assert dump.main_thread.tid == process.pid
    assert python_calls(dump)[dump.main or 0] == MAIN
