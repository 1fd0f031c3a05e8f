"""Commands on evidence that would eat, block or break them: the rest of the evidence is told."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from builders import commands
from builders.commands import ENVIRONMENT, crash_in

_SECONDS = 100
_SERVER = Path(__file__).parents[1] / "programs" / "silent_fs.py"
_RAISED = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 7, in <module>
[rank0]: ValueError: odd batch
"""


def command(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return commands.call(*words, env=ENVIRONMENT | env)


def report(*words: str | Path, **env: str) -> dict[str, Any]:
    return commands.report(*words, env=ENVIRONMENT | env)


def problems(document: dict[str, Any]) -> dict[str, str]:
    return {Path(row["where"]).name: row["what"] for row in document["problems"]}


def save_tensor(path: Path) -> None:
    head = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"\0\0\x80\x3f" * 2)


def test_fifos_of_any_name_block_no_command_and_are_listed(tmp_path: Path) -> None:
    names = ["rank1.log", "error.json", ".metadata", "x.index.json", "nccl_trace_rank_0"]
    names += ["model.safetensors", "core.77", "flight.bin", "strace.out.9", "dmesg.txt", "e.distcp"]
    for name in names:
        os.mkfifo(tmp_path / name)
    (tmp_path / "zero.log").symlink_to("/dev/zero")
    (tmp_path / "attempt_0" / "0").mkdir(parents=True)
    os.mkfifo(tmp_path / "attempt_0" / "0" / "error.json")
    (tmp_path / "rank0.log").write_text(_RAISED)
    (tmp_path / "strace.out.8").write_text('8 openat(AT_FDCWD, "/a", O_RDONLY) = 3\n' * 5)
    save_tensor(tmp_path / "good.safetensors")
    (tmp_path / "core.78").write_bytes(b"no core")

    document = report("logs", tmp_path)
    assert document["first_failure"]["rank"] == 0
    told = problems(document)
    assert all("(FIFO)" in told[name] for name in names)
    assert " device" in told["zero.log"]

    document = report("scan", tmp_path)
    assert [row["name"] for row in document["tensors"]] == ["w"]
    told = problems(document)
    for name in ("model.safetensors", "e.distcp", ".metadata", "x.index.json"):
        assert "(FIFO)" in told[name]

    document = report("strace", tmp_path)
    assert document["lines"] == 5
    assert all("(FIFO)" in problems(document)[name] for name in names)

    done = command("core", "--fold", tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""


@pytest.mark.parametrize("kind", ["logs", "strace", "scan", "core"])
def test_a_device_that_is_named_is_refused(kind: str, tmp_path: Path) -> None:
    link = tmp_path / "model.safetensors.index.json"
    link.symlink_to("/dev/zero")
    for path in ("/dev/zero", link):
        done = command(kind, path)
        assert done.returncode == 3
        assert " device" in done.stderr
        assert done.stdout == ""


COMMANDS = ("core", "strace", "logs", "scan", "flight", "triage", "watch --read", "diff")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_file_of_a_terabyte_of_nothing(words: str, tmp_path: Path) -> None:
    path = tmp_path / "job"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    done = command(*words.split(), *[path] * (2 if words == "diff" else 1))
    assert done.returncode == 3
    assert str(path) in done.stdout + done.stderr
    assert "POSTMORTEM_DEBUG" not in done.stderr


@pytest.mark.parametrize("words", COMMANDS)
def test_names_of_any_bytes_are_told_and_steer_no_terminal(words: str, tmp_path: Path) -> None:
    path = tmp_path / "n\n\x1b]0;x\x07\udcff\udcfe.log"
    path.write_text("nothing that anybody knows\n")
    done = command(*words.split(), *[path] * (2 if words == "diff" else 1))
    assert done.returncode in (0, 3)
    assert "\x1b" not in done.stdout + done.stderr
    named = "n\\n\\x1b]0;x\\x07\\xff\\xfe.log" in done.stdout + done.stderr
    assert named or done.returncode == 0  # a card of what is healthy names no file
    assert "POSTMORTEM_DEBUG" not in done.stderr


def test_a_recording_of_any_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "\udcff.log"
    path.write_text('8 openat(AT_FDCWD, "/a", O_RDONLY) = 3\n' * 5)
    assert report("strace", path)["lines"] == 5


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="needs to read /proc/kmsg")
@pytest.mark.parametrize("words", COMMANDS)
def test_a_file_of_the_kernel_that_would_be_waited_for(words: str) -> None:
    path = "/proc/kmsg"
    done = command(*words.split(), *[path] * (2 if words == "diff" else 1))
    assert done.returncode in (0, 1, 3)  # where it has something to say, that is read
    assert "POSTMORTEM_DEBUG" not in done.stderr


def test_a_file_that_takes_too_much_memory_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(_RAISED)
    kernel = tmp_path / "dmesg.txt"
    kernel.write_text("[   12.345678] usb 1-1: new high-speed USB device number 2 using xhci_hcd\n")
    assert "dmesg.txt" not in problems(report("logs", tmp_path))
    with kernel.open("a") as stream:
        for _ in range(200):
            stream.write("[   13.345678] " + "x" * (1 << 20) + "\n")
    document = report("logs", tmp_path, POSTMORTEM_MEMORY="150M")
    assert " 0.2 GB " in problems(document)["dmesg.txt"]
    assert document["first_failure"]["rank"] == 0
    done = command("logs", kernel, POSTMORTEM_MEMORY="150M")
    assert done.returncode == 3
    assert " 0.2 GB " in done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def silent_file_system(folder: Path) -> Iterator[None]:
    """A mounted file system in which every open() waits forever."""
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, str(_SERVER), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        if server.stdout.readline() != "ready\n":
            pytest.skip(f"no file system can be mounted here: {server.stderr.read()[-200:]}")
        try:
            yield
        finally:
            server.communicate(timeout=_SECONDS)


needs_fuse = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs FUSE and root"
)


@needs_fuse
def test_a_file_system_that_does_not_answer(tmp_path: Path) -> None:
    dead = tmp_path / "dead"
    with silent_file_system(dead):
        (tmp_path / "job").mkdir()
        (tmp_path / "job" / "rank0.log").write_text(_RAISED)
        (tmp_path / "job" / "rank1.log").symlink_to(dead / "rank1.log")
        document = report("logs", tmp_path / "job", POSTMORTEM_PATIENCE="1")
        assert document["first_failure"]["rank"] == 0
        assert " for 1 s" in problems(document)["rank1.log"]

        save_tensor(tmp_path / "good.safetensors")
        good, bad = tmp_path / "good.safetensors", dead / "bad.safetensors"
        document = report("scan", good, bad, dead / "worse.safetensors", POSTMORTEM_PATIENCE="1")
        assert len(document["tensors"]) == 1
        for name in ("bad.safetensors", "worse.safetensors"):
            assert " for 1 s" in problems(document)[name]

        done = command("strace", dead / "a.log", POSTMORTEM_PATIENCE="1")
        assert done.returncode == 3
        assert " for 1 s" in done.stderr


@needs_fuse
@pytest.mark.cores
def test_libraries_on_a_file_system_that_does_not_answer(
    tmp_path: Path, compiled: Callable[..., Path]
) -> None:
    core = crash_in(tmp_path, [str(compiled("segv_here.cpp", "-g", "-O1"))])
    with silent_file_system(tmp_path / "dead"):
        document = report("core", core, "--sysroot", tmp_path / "dead", POSTMORTEM_PATIENCE="1")
    assert document["signal"]["name"] == "SIGSEGV"
    assert any(" for 1 s" in row["what"] for row in document["problems"])
    assert all(row["status"] == "missing" for row in document["modules"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_what_is_sent_to_us_ends_the_child_too(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "postmortem", "logs", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as parent:
        path = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        end = time.monotonic() + _SECONDS
        while not (children := path.read_text().split()) and time.monotonic() < end:
            time.sleep(0.01)
        (child,) = children
        syscall = Path(f"/proc/{child}/syscall")
        while syscall.read_text().split()[0] != "7" and time.monotonic() < end:  # poll(2): it reads
            time.sleep(0.01)
        parent.send_signal(number)
        parent.wait(_SECONDS)
        assert parent.stderr is not None
        assert "Traceback" not in parent.stderr.read()
    assert parent.returncode in (128 + number, -number)
    while Path(f"/proc/{child}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not Path(f"/proc/{child}").exists()


def test_what_is_named_through_another_process_is_read(tmp_path: Path) -> None:
    """A container's files, as /proc/PID/root shows them to who may trace PID."""
    (tmp_path / "rank0.log").write_text(_RAISED)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, cwd=tmp_path)
    try:
        document = report("logs", f"/proc/{other.pid}/cwd/rank0.log")
    finally:
        other.communicate(b"\n", timeout=_SECONDS)
    assert document["first_failure"]["rank"] == 0
