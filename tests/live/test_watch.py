"""``postmortem watch`` on real processes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from builders.commands import report
from builders.prose import Prose
from builders.schema import validate
from postmortem.readers.watch_ring import read_watch_ring

GROWING = Path(__file__).parents[1] / "programs" / "growing.py"
WATCH = [sys.executable, "-m", "postmortem", "watch"]


@contextmanager
def growing(step_kib: int, seconds: float = 100) -> Iterator[int]:
    command = [sys.executable, GROWING, str(step_kib), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield child.pid
        finally:
            child.kill()


def watched(*words: str | int, code: int | None = None) -> dict[str, Any]:
    done = subprocess.run(
        [*WATCH, *map(str, words), "--json"], capture_output=True, text=True, timeout=100
    )
    assert done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    if code is not None:
        assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    validate(document)
    return document


def ids(document: dict[str, Any]) -> list[str]:
    return [one["id"] for one in document["diagnoses"]]


def test_who_grows_and_where() -> None:
    with growing(512) as pid:
        document = watched(pid, "--for", "8", "--interval", "0.2")
    assert "memory_grows" in ids(document)
    process = document["processes"][0]
    assert process["pid"] == pid
    assert process["looks"] >= 1
    assert any("growing.py:" in row["line"] for row in process["grew_at"])
    assert any("in hoard" in row["line"] for row in process["grew_at"])
    assert process["samples"][-1]["descriptors"] >= 3


def test_who_does_not_grow() -> None:
    with growing(0) as pid:
        document = watched(pid, "--for", "4", "--interval", "0.2", code=0)
    assert "memory_grows" not in ids(document)
    assert document["outcome"] == "unknown"


def test_children_that_come_later() -> None:
    program = (
        "import subprocess, sys; sys.stdin.readline();"
        f"subprocess.run([sys.executable, {str(GROWING)!r}, '0', '8'])"
    )
    with (
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as parent,
        subprocess.Popen(
            [*WATCH, str(parent.pid), "--interval", "0.2", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as watch,
    ):
        assert watch.stderr is not None
        watch.stderr.readline()
        parent.communicate(b"\n")
        out, _ = watch.communicate(timeout=60)
    assert len(json.loads(out)["processes"]) == 2


def samples_in(ring: Path) -> int:
    if not ring.exists():
        return 0
    return sum(len(one.samples) for one in read_watch_ring(ring)[0].processes)


def test_the_ring_outlives_a_kill(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    with growing(512) as pid:
        command = [*WATCH, str(pid), "--interval", "0.1", "--ring", str(ring), "--no-lines"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as watch:
            end = time.monotonic() + 60
            while samples_in(ring) < 40 and time.monotonic() < end:
                time.sleep(0.1)
            watch.kill()
    assert ring.stat().st_mode & 0o777 == 0o600
    document = watched("--read", ring)
    assert "memory_grows" in ids(document)
    assert len(document["processes"][0]["samples"]) > 8


def test_a_process_that_ends_ends_the_watch() -> None:
    with growing(0, 2) as pid:
        document = watched(pid, "--interval", "0.2")
    assert document["processes"][0]["ended"]


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["to it alone", "to the group"])
def test_ctrl_c_writes_the_report(send: Callable[[int, int], None]) -> None:
    with growing(0) as pid:
        command = [*WATCH, str(pid), "--interval", "0.2", "--json"]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as watch:
            assert watch.stderr is not None
            watch.stderr.readline()
            send(watch.pid, signal.SIGINT)
            out, _ = watch.communicate(timeout=60)
    assert json.loads(out)["kind"] == "watch"


def test_who_cannot_be_watched(tmp_path: Path, prose: Prose) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    while Path(f"/proc/{dead.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    (tmp_path / "text").write_text("no ring\n")
    for words in (
        [str(dead.pid)],
        ["2147483000"],
        ["--read", str(tmp_path / "none")],
        ["--read", str(tmp_path / "text")],
        ["--job", "no-such-job-4711"],
        [str(os.getpid()), "--ring", str(tmp_path / "no" / "ring")],
    ):
        said = refused(*words)
        prose(re.sub(r"ring\.\d+", "ring.PID", said))
    dead.wait()


def test_a_thread_of_the_kernel_is_not_watched(prose: Prose) -> None:
    second = Path("/proc/2/comm")
    if not second.exists() or second.read_text().strip() != "kthreadd":
        pytest.skip("no thread of the kernel is seen here")
    prose(refused("2"))


def refused(*words: str) -> str:
    done = subprocess.run([*WATCH, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, (words, done.stderr)
    return done.stderr


def test_another_users_process(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    with growing(0) as pid:
        program = (
            "import os, sys; os.setgid(65534); os.setuid(65534); "
            "os.execv(sys.executable, sys.argv[1:])"
        )
        words = [sys.executable, "-m", "postmortem", "watch", str(pid), "--for", "2", "--json"]
        done = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60
        )
        if "Permission denied" in done.stderr and not done.stdout:
            pytest.skip("the interpreter itself is out of another user's reach")
        process = json.loads(done.stdout)["processes"][0]
    assert process["samples"][-1]["rss_bytes"] > 0
    assert process["samples"][-1]["pss_bytes"] is None
    assert process["samples"][-1]["descriptors"] is None


@pytest.fixture
def cage() -> Iterator[Path]:
    """A memory cgroup of 200 MiB."""
    name = f"pm-watch-{os.getpid()}"
    for top, limit in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        folder = Path("/sys/fs/cgroup", top, name)
        try:
            folder.mkdir()
        except OSError:
            continue
        if not (folder / limit).exists():
            folder.rmdir()
            continue
        (folder / limit).write_text(str(200 << 20))
        yield folder
        end = time.monotonic() + 20
        while (folder / "cgroup.procs").read_text() and time.monotonic() < end:
            time.sleep(0.05)
        folder.rmdir()
        return
    pytest.skip("no memory cgroup can be made here")


def test_a_kill_for_memory(cage: Path, tmp_path: Path) -> None:
    """The kernel kills the process; the ring says that it was at the limit, and triage reads it."""
    ring = tmp_path / "evidence" / "node.ring"
    ring.parent.mkdir()
    command = f"echo $$ > {cage}/cgroup.procs; exec {sys.executable} {GROWING} 512 100"
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        document = watched(child.pid, "--interval", "0.1", "--ring", ring, "--no-lines", code=1)
        assert child.wait() == -signal.SIGKILL
    first = document["diagnoses"][0]
    assert first["id"] == "memory_ran_out"
    assert first["confidence"] == "likely"
    assert first["about"]["pid"] == child.pid
    assert 200 << 20 in [one["limit_bytes"] for one in document["limits"]]
    found = report("triage", ring.parent)
    assert [(one["type"], one["pid"]) for one in found["roots"]] == [
        ("killed for memory", child.pid)
    ], found


def test_the_forecast_of_a_cgroup(cage: Path) -> None:
    command = f"echo $$ > {cage}/cgroup.procs; exec {sys.executable} {GROWING} 128 100"
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        document = watched(child.pid, "--interval", "0.1", "--for", "7", "--no-lines")
        child.kill()
    assert "memory_will_run_out" in ids(document)
    assert "memory_ran_out" not in ids(document)
