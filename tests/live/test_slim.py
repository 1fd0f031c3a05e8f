"""Slim cores of real crashes: gdb, pystack, eu-stack and we read them as we read the originals."""

import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from builders.commands import execute
from live.compare_slim import ask, commands, differences, executable_of, make_slim
from live.conftest import PROGRAMS, CrashedProcess
from live.test_python_frames import interpreters
from postmortem import _native
from postmortem.cli.main import main

Crash = Callable[..., CrashedProcess]
Compiled = Callable[..., Path]

pytestmark = pytest.mark.cores
MIB = 1 << 20
PAGE = 4096


def assert_the_same(
    core: Path, slim: Path, executable: str | None = None, readers: Sequence[str] = ()
) -> None:
    """Compare what readers say, all that are here unless some are named."""
    found = differences(core, slim, executable or executable_of(core), readers)
    assert {name: lines[:20] for name, lines in found.items() if lines} == {}


@pytest.mark.slow
@pytest.mark.gdb
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", interpreters(), ids=lambda path: Path(path).parents[1].name)
def test_python_values_and_threads(crash: Crash, path: str, tmp_path: Path) -> None:
    """Containers, long texts, attributes: another reader copies whole what we read parts of."""
    core = crash([path, PROGRAMS / "python_values.py"]).core
    slim = tmp_path / "slim"
    make_slim(core, slim)
    assert slim.stat().st_size < 8 * MIB
    # What gdb reads is chosen alike for all interpreters; what the others read, by their version.
    others = ("pystack --locals", "eu-stack", "postmortem --locals")
    with_gdb = path in (sys.executable, interpreters()[-1]) or path.startswith("/usr")
    assert_the_same(core, slim, readers=() if with_gdb else others)


@pytest.mark.slow
@pytest.mark.gdb
def test_pystack_has_something_to_say(crash: Crash, tmp_path: Path) -> None:
    """Two readers that both fail would agree."""
    core = crash([sys.executable, PROGRAMS / "python_values.py"]).core
    slim = tmp_path / "slim"
    make_slim(core, slim)
    asked = commands(slim, executable_of(slim))
    for name, word in {
        "pystack": "in crash",
        "pystack --locals": "ordered:",
        "eu-stack": "start_thread",
        "postmortem --locals": "key 0",
    }.items():
        if name in asked:
            said = ask(asked[name], slim)
            assert (said.status, word in said.text) == (0, True)


@pytest.mark.slow
@pytest.mark.gdb
@pytest.mark.timeout(300)
def test_251_threads(crash: Crash, tmp_path: Path) -> None:
    core = crash([sys.executable, PROGRAMS / "python_stacks.py"], THREADS="250", DEPTH="5").core
    slim = tmp_path / "slim"
    row = make_slim(core, slim)
    assert row["threads"] == 252
    assert slim.stat().st_size < 25 * MIB
    # gdb and eu-stack read the same memory and no Python in it, and take 15 s for so many threads.
    assert_the_same(core, slim, readers=("pystack --locals", "postmortem --locals"))


@pytest.mark.gdb
@pytest.mark.cxx
@pytest.mark.parametrize("how", ["altstack", "smash", "badcall", "handler"])
def test_stacks_of_c(crash: Crash, compiled: Compiled, tmp_path: Path, how: str) -> None:
    program = compiled("stacks.c", "-xc", "-std=gnu17", "-g", "-O1", "-pthread")
    core = crash([program, how]).core
    slim = tmp_path / "slim"
    make_slim(core, slim)
    assert_the_same(core, slim, str(program))


@pytest.mark.gdb
@pytest.mark.cxx
def test_cpp_exceptions(crash: Crash, compiled: Compiled, tmp_path: Path) -> None:
    program = compiled("dies_in_handler.cpp", "-g", "-O1", "-pthread")
    core = crash([program]).core
    slim = tmp_path / "slim"
    make_slim(core, slim)
    assert_the_same(core, slim, str(program))


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.gdb
@pytest.mark.timeout(300)
def test_torch(crash: Crash, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = "import os, torch; x = torch.ones(64 << 20); (x @ x).item(); os.abort()"
    core = crash([sys.executable, "-c", code]).core
    slim = tmp_path / "slim"
    make_slim(core, slim)
    assert slim.stat().st_size < 25 * MIB
    # Without gdb: for 12 s it reads symbols, which are in no core.
    assert_the_same(core, slim, readers=("pystack --locals", "eu-stack", "postmortem --locals"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small core, by gcore of a stopped Python process; the kernel's order of the file."""
    yield from _stopped_core(tmp_path_factory.mktemp("plain"), alive=False)


def _stopped_core(folder: Path, *, alive: bool) -> Iterator[Path]:
    gcore = shutil.which("gcore")
    if gcore is None:
        pytest.skip("no gcore")
    code = (
        "import signal, threading\n"
        "def work(number):\n"
        "    mine = [number, 'text of the thread']\n"
        "    threading.Event().wait(600)\n"
        "for i in range(3): threading.Thread(target=work, args=(i,), daemon=True).start()\n"
        "heap = bytearray(40 << 20)\n"
        "print('ready', flush=True)\n"
        "threading.Event().wait(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env=os.environ | {"MALLOC_ARENA_MAX": "1"},  # each more is 64 MiB of nothing in the core
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        run = execute([gcore, "-o", str(folder / "g"), str(process.pid)])
        core = folder / f"g.{process.pid}"
        if not core.exists():
            pytest.skip(f"gcore cannot attach here: {run.stderr[-200:]}")
        in_order = folder / "core"
        in_order.write_bytes(_in_kernels_order(core.read_bytes()))
        if alive:
            (folder / "pid").write_text(str(process.pid))
            yield in_order
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    if not alive:
        yield in_order


def _in_kernels_order(data: bytes) -> bytes:
    """Put the notes before the memory: gdb writes them last, the kernel first."""
    (table,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
    rows = [struct.unpack_from("<IIQQQQQQ", data, table + 56 * i) for i in range(count)]
    loads = [row for row in rows if row[0] == 1]
    notes = b"".join(data[row[2] : row[2] + row[5]] for row in rows if row[0] == 4)
    header = bytearray(data[:64])
    struct.pack_into("<QQ", header, 32, 64, 0)
    struct.pack_into("<HHHHHH", header, 52, 64, 56, 1 + len(loads), 0, 0, 0)
    at = 64 + 56 * (1 + len(loads))
    headers = [struct.pack("<IIQQQQQQ", 4, 0, at, 0, 0, len(notes), 0, 4)]
    contents = [notes + bytes(-(at + len(notes)) % PAGE)]
    at += len(contents[0])
    for _, flags, offset, address, _, size, in_memory, _ in loads:
        headers.append(struct.pack("<IIQQQQQQ", 1, flags, at, address, 0, size, in_memory, PAGE))
        contents.append(data[offset : offset + size] + bytes(-size % PAGE))
        at += len(contents[-1])
    return bytes(header) + b"".join(headers) + b"".join(contents)


def _slim_through_pipe(core: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """``cat CORE | postmortem core - ...``."""
    with subprocess.Popen(["cat", str(core)], stdout=subprocess.PIPE) as cat:
        run = execute([sys.executable, "-m", "postmortem", "core", "-", *options], stdin=cat.stdout)
        assert cat.stdout is not None
        cat.stdout.close()
    return run


def test_through_a_pipe_it_is_the_same(plain: Path, tmp_path: Path) -> None:
    assert main(["core", str(plain), "--slim", str(tmp_path / "file")]) == 0
    run = _slim_through_pipe(plain, "--slim", str(tmp_path / "pipe"))
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "pipe").read_bytes() == (tmp_path / "file").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "pipe"]
    assert "secrets" in run.stderr


@pytest.mark.gdb
def test_notes_behind_the_memory(plain: Path, tmp_path: Path) -> None:
    """Cores of gcore come in another order; the stream is kept whole then."""
    gcores = next(plain.parent.glob("g.*"))
    run = _slim_through_pipe(gcores, "--slim", str(tmp_path / "pipe"))
    assert run.returncode == 0, run.stderr
    assert_the_same(gcores, tmp_path / "pipe")


def test_from_the_process_itself(tmp_path: Path) -> None:
    """As the handler of core_pattern does it: almost nothing of the stream is read."""
    for core in _stopped_core(tmp_path, alive=True):
        slim = tmp_path / "slim"
        pid = (tmp_path / "pid").read_text()
        run = _slim_through_pipe(core, "--slim", str(slim), "--pid", pid)
        assert run.returncode == 0, run.stderr
        assert "stream instead" not in run.stderr
        found = differences(core, slim, executable_of(core), ("eu-stack", "pystack --locals"))
        assert {name: lines[:9] for name, lines in found.items() if lines} == {}
        raw, original = _native.read_core(str(slim)), _native.read_core(str(core))
        assert raw["python"] == original["python"]
        assert raw["threads"] == original["threads"]
        assert raw["slim"] is not None
        names = raw["slim"]["thread_names"]
        assert sorted(names) == sorted(thread["tid"] for thread in raw["threads"])
        assert names[int(pid)] == Path(f"/proc/{pid}/comm").read_text().strip()


def test_another_process_is_not_believed(plain: Path, tmp_path: Path) -> None:
    run = _slim_through_pipe(plain, "--slim", str(tmp_path / "slim"), "--pid", str(os.getpid()))
    assert run.returncode == 0, run.stderr
    assert str(os.getpid()) in run.stderr
    assert main(["core", str(plain), "--slim", str(tmp_path / "file")]) == 0
    assert (tmp_path / "slim").read_bytes() == (tmp_path / "file").read_bytes()


@pytest.mark.parametrize("share", [0.999, 0.9, 0.5])
def test_a_stream_that_ends_early(plain: Path, tmp_path: Path, share: float) -> None:
    cut = tmp_path / "cut"
    data = plain.read_bytes()
    cut.write_bytes(data[: int(len(data) * share)])
    slim = tmp_path / "slim"
    run = _slim_through_pipe(cut, "--slim", str(slim))
    assert run.returncode == 0, run.stderr
    assert {str(cut.stat().st_size), str(len(data))} <= {*run.stderr.split()}
    raw, original = _native.read_core(str(slim)), _native.read_core(str(cut))
    assert [t["frames"] for t in raw["threads"]] == [t["frames"] for t in original["threads"]]
    assert raw["python"] == original["python"]
    assert raw["slim"] is not None
    assert raw["slim"]["source_bytes"] == cut.stat().st_size
    assert raw["slim"]["source_expected_bytes"] == len(data)


def test_slim_of_slim_is_the_same(plain: Path, tmp_path: Path) -> None:
    once, twice = tmp_path / "once", tmp_path / "twice"
    make_slim(plain, once)
    make_slim(once, twice)
    assert once.read_bytes() == twice.read_bytes()
    run = _slim_through_pipe(once, "--slim", str(tmp_path / "piped"))
    assert run.returncode == 0, run.stderr
    assert once.read_bytes() == (tmp_path / "piped").read_bytes()
