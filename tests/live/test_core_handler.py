"""The handler of core_pattern with real cores: as the kernel starts it, and its socket.

core_pattern is one for the whole machine: what sets it for real runs only where
POSTMORTEM_TEST_CORE_PATTERN=1 says that nothing else crashes here meanwhile.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.commands import execute
from builders.processes import until
from builders.prose import Prose
from live.conftest import Crash
from postmortem.handler.server import answer
from postmortem.handler.settings import Settings, own_command
from postmortem.handler.taking import Crash as Taken
from postmortem.handler.taking import main as take_main
from postmortem.handler.taking import take

POSTMORTEM = [sys.executable, "-m", "postmortem"]
PATTERN = Path("/proc/sys/kernel/core_pattern")
CRASH = "import ctypes\ndef decode_row(): ctypes.string_at(0)\ndecode_row()\n"
NAMESPACE = ["unshare", "--map-root-user", "--mount"]


def in_namespace(script: str, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a shell script as root of mount and user namespaces of its own."""
    command = [*NAMESPACE, "sh", "-ec", script, "sh", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, **options
    )


@pytest.fixture
def namespaces() -> None:
    if shutil.which("unshare") is None or in_namespace("true").returncode:
        pytest.skip("no user namespaces here")


@pytest.fixture
def core(crash: Crash, tmp_path: Path) -> Path:
    program = tmp_path / "crash.py"
    program.write_text(CRASH)
    return crash([sys.executable, program]).core


def settings(folder: Path) -> Settings:
    folder.mkdir()
    return Settings(str(folder), 1 << 30, 30.0, "core", "")


def taken(folder: Path) -> tuple[Path, Path]:
    """Return the one core and the one verdict in a folder; both are their owner's alone."""
    (slim,) = folder.glob("core.*.slim*")
    (told,) = folder.glob("core.*.txt")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (slim, told)} == {0o600}
    return slim, told


def test_as_the_kernel_starts_it(core: Path, tmp_path: Path, namespaces: None) -> None:
    """An empty environment, standard output and error closed, the core on standard input."""
    assert take_main.__module__ == "postmortem.handler.taking"
    home = tmp_path / "lib/postmortem"
    home.mkdir(parents=True)
    cores = tmp_path / "cores"
    state = settings(cores)
    fields = {name: getattr(state, name) for name in Settings.__annotations__}
    (home / "core-handler.json").write_text(json.dumps(fields))
    words = ["postmortem.handler.taking:main", "4194000", str(os.getuid()), "1", "1700000000"]
    handler = shlex.join(own_command([*words, "a b/../c"]))
    script = f'mount --bind "$1" /var/lib; cat "$2" | env -i {handler} >&- 2>&-'
    done = in_namespace(script, str(tmp_path / "lib"), str(core))
    assert done.returncode == 0, done.stderr
    slim, told = taken(cores)
    assert slim.name.startswith("core.a_b_.._c.4194000.1700000000.slim")
    assert "decode_row" in told.read_text()
    again = execute([*POSTMORTEM, "core", str(slim), "--engine", "native", "-q"])
    assert again.returncode == 1
    assert "SIGSEGV" in again.stdout


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_what_the_user_cannot_read_is_in_no_report_of_his(core: Path, tmp_path: Path) -> None:
    """The core may name any file as its source: the folder of this test is root's alone."""
    where = settings(tmp_path / "cores")
    with core.open("rb") as stream:
        take(os.dup(stream.fileno()), Taken(4194001, 65534, True, 1700000000, "a"), where)
    slim, told = taken(tmp_path / "cores")
    assert "decode_row" in told.read_text()
    assert (slim.stat().st_uid, told.stat().st_uid) == (65534, 0)


REQUEST = struct.pack("=IIQ", 16, 16, 0xF)


def speak(folder: Path, kernel: Callable[[socket.socket], None]) -> int:
    """Have `answer` speak with `kernel`, which runs in a child; return how the child ended."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ours.close()
            theirs.settimeout(60)
            kernel(theirs)
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    with ours:
        answer(ours, settings(folder))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_socket_takes_a_core(core: Path, tmp_path: Path) -> None:
    """The kernel's side as fs/coredump.c has it: request, answer, mark, core."""

    def kernel(peer: socket.socket) -> None:
        peer.sendall(REQUEST)
        assert struct.unpack("=IIQ", peer.recv(16, socket.MSG_WAITALL)) == (16, 0, 1 | 8)
        peer.sendall(struct.pack("=I", 0) + core.read_bytes())
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1) == b""  # the process stands still until then

    assert speak(tmp_path / "cores", kernel) == 0
    assert "decode_row" in taken(tmp_path / "cores")[1].read_text()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        REQUEST[:9],
        struct.pack("=IIQ", 1 << 31, 16, 0xF),
        struct.pack("=IIQ", 16, 4, 0xF),
        struct.pack("=IIQ", 16, 16, 0x4),
        REQUEST + struct.pack("=I", 3),
        REQUEST + struct.pack("=I", 0) + b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_the_socket_takes_no_nonsense(
    sent: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str], prose: Prose
) -> None:
    def kernel(peer: socket.socket) -> None:
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(4096):
            pass

    speak(tmp_path / "cores", kernel)
    prose(re.sub(r"of \S+ \(pid \d+\)", "of PROGRAM", capfd.readouterr().err))
    assert list((tmp_path / "cores").glob("core.*")) == []


def test_a_clear_no_without_root(prose: Prose) -> None:
    words = [*POSTMORTEM, "install-handler"]
    if os.getuid() == 0:
        nobody = ["setpriv", "--reuid", "65534", "--clear-groups"]
        if subprocess.run([*nobody, *POSTMORTEM, "-V"], check=False).returncode:
            pytest.skip("nobody cannot start this Python")
        words = [*nobody, *words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    prose(done.stderr)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_clear_no_with_a_read_only_proc() -> None:
    before = PATTERN.read_text()
    script = (
        'mount --bind -o ro /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys; exec "$@"'
    )
    command = ["unshare", "--mount", "sh", "-ec", script, "sh", *POSTMORTEM, "install-handler"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "mount:" in done.stderr:
        pytest.skip(f"cannot mount here: {done.stderr}")
    assert done.returncode == 3
    assert "/proc/sys " in done.stderr
    assert PATTERN.read_text() == before


def test_undo_where_nothing_is_installed(namespaces: None, tmp_path: Path) -> None:
    words = shlex.join([*POSTMORTEM, "install-handler", "--undo"])
    done = in_namespace(f'mount --bind "$1" /var/lib; {words}', str(tmp_path))
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1


def test_the_unit_is_one(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    unit = Path(__file__).parents[2] / "deploy/systemd/postmortem-core.service"
    text = unit.read_text()
    words = text.partition("ExecStart=")[2].splitlines()[0].split()
    parsed = subprocess.run([*POSTMORTEM, *words[1:], "--dry-run"], check=False)
    assert parsed.returncode == 0
    text = text.replace(words[0], "/bin/true")
    text = "\n".join(row for row in text.splitlines() if not row.startswith("Documentation="))
    copy = tmp_path / unit.name
    copy.write_text(text + "\n")
    done = execute(["systemd-analyze", "verify", str(copy)])
    assert unit.name not in done.stderr, done.stderr


# --- for real

real = pytest.mark.skipif(
    os.environ.get("POSTMORTEM_TEST_CORE_PATTERN") != "1" or os.getuid() != 0,
    reason="sets core_pattern of the whole machine: POSTMORTEM_TEST_CORE_PATTERN=1, as root",
)


@pytest.fixture
def pattern() -> Iterator[str]:
    """Set core_pattern back in all cases: also when this process is killed, a child does it."""
    before = PATTERN.read_text()
    waits, alive = os.pipe2(os.O_CLOEXEC)
    guard = os.fork()
    if guard == 0:
        os.close(alive)
        os.setsid()
        os.read(waits, 1)
        PATTERN.write_text(before)
        os._exit(0)
    os.close(waits)
    yield before.rstrip("\n")
    os.close(alive)
    os.waitpid(guard, 0)
    assert PATTERN.read_text() == before


def crashed(folder: Path) -> tuple[Path, Path]:
    """Crash a program, and return what its handler wrote."""
    done = subprocess.run([sys.executable, "-c", CRASH], check=False)
    assert done.returncode == -signal.SIGSEGV
    until(lambda: any(path.read_text() for path in folder.glob("core.*.txt")))
    return taken(folder)


@real
def test_installed_for_real(tmp_path: Path, pattern: str) -> None:
    cores = tmp_path / "cores"
    install = [*POSTMORTEM, "install-handler", "--into", str(cores)]
    for _ in range(2):  # twice changes nothing more
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    try:
        _, told = crashed(cores)
        assert "decode_row" in told.read_text()
        report = subprocess.run([*POSTMORTEM, "doctor", "--json"], capture_output=True, check=False)
        checks = {row["name"]: row["found"] for row in json.loads(report.stdout)["checks"]}
        assert "postmortem" in checks["core_pattern"]
    finally:
        undone = subprocess.run([*install[:4], "--undo"], check=False)
    assert undone.returncode == 0
    assert PATTERN.read_text().rstrip("\n") == pattern
    assert not Path("/var/lib/postmortem/core-handler").exists()


@real
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_the_socket_for_real(tmp_path: Path, pattern: str, ending: signal.Signals) -> None:
    path, cores = tmp_path / "socket", tmp_path / "cores"
    serve = [*POSTMORTEM, "install-handler", "--socket", str(path), "--into", str(cores)]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stderr is not None
    if "core_pattern" not in server.stdout.readline():
        said = server.communicate()[1]
        assert server.returncode == 3
        assert "6.17" in said
        pytest.skip(said)
    try:
        assert "decode_row" in crashed(cores)[1].read_text()
    finally:
        server.send_signal(ending)
        server.wait(30)
        server.stdout.close()
        server.stderr.close()
    until(lambda: PATTERN.read_text().rstrip("\n") == pattern)
    assert not path.exists()
