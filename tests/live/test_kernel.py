"""Kernels of Jupyter under `postmortem run`, and `%postmortem` in the one that is started after."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")
KernelSpec = pytest.importorskip("jupyter_client.kernelspec").KernelSpec

SECONDS = 120
RUN = [sys.executable, "-m", "postmortem", "run"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTMORTEM_ATTACH_DIR", str(tmp_path / "box"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ip"))
    (tmp_path / "box").mkdir(mode=0o700)
    monkeypatch.delenv("POSTMORTEM_RUN", raising=False)
    return tmp_path


class Kernel:
    """A kernel, and its client."""

    def __init__(self, process: subprocess.Popen[bytes], blocking: Any) -> None:
        self.process, self._client = process, blocking

    def cell(self, code: str) -> str:
        """Run a cell; return what it wrote to its standard output."""
        said: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                said.append(message["content"]["text"])

        self._client.execute_interactive(code, timeout=SECONDS, output_hook=hear)
        return "".join(said)

    def last_cell(self, code: str) -> int:
        """Run a cell that ends the kernel; return the status."""
        self._client.execute(code)
        return self.process.wait(SECONDS)


@contextmanager
def kernel(*words: str) -> Iterator[Kernel]:
    """Start a kernel as Jupyter does, behind some words, and connect to it."""
    argv = [*words, sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager = client.KernelManager(connection_file=str(Path("kernel-7.json").absolute()))
    manager._kernel_spec = KernelSpec(argv=argv, display_name="", language="python")
    with Path("stderr.txt").open("ab") as errors:
        manager.start_kernel(stdout=errors, stderr=errors)
    blocking = manager.blocking_client()
    blocking.start_channels()
    try:
        blocking.wait_for_ready(timeout=SECONDS)
        yield Kernel(manager.provisioner.process, blocking)
    finally:
        blocking.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_kernel_that_crashed_is_told_with_its_cell() -> None:
    with kernel(*RUN, "--") as one:
        one.cell("import ctypes\ndef read(at):\n    return ctypes.string_at(at)\n")
        assert one.last_cell("read(8)") == 128 + signal.SIGSEGV
    (folder,) = Path().glob("postmortem-*")
    assert "SIGSEGV" in Path("stderr.txt").read_text(errors="replace")
    assert "in read" in "".join(path.read_text() for path in folder.glob("boxes/*"))


def test_a_kernel_that_was_killed_is_told() -> None:
    with kernel(*RUN, "--") as one:
        assert one.last_cell("import os; os.kill(os.getpid(), 9)") == 128 + signal.SIGKILL
    assert "SIGKILL" in Path("stderr.txt").read_text(errors="replace")


def test_a_kernel_that_is_shut_down_leaves_nothing() -> None:
    with kernel(*RUN, "--") as one:
        assert one.cell("print(6 * 7)") == "42\n"
        assert one.last_cell("get_ipython().ask_exit()") == 0
    assert not list(Path().glob("postmortem-*"))


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("import ctypes; ctypes.string_at(8)", " fatal signal"),
        ("import os, time; time.sleep(1.5); os.kill(os.getpid(), 9)", "killed (SIGKILL)"),
    ],
)
def test_the_next_kernel_tells_what_became_of_it(last: str, said: str) -> None:
    with kernel() as one:
        one.cell("%load_ext postmortem")
        assert one.last_cell(last) < 0
    with kernel() as other:
        other.cell("%load_ext postmortem")
        told = other.cell("%postmortem")
    assert said in told
    assert last in told


@pytest.mark.skipif(not os.access("/sys/fs/cgroup", os.W_OK), reason="needs a control group")
def test_a_kernel_that_used_up_its_memory_is_told() -> None:
    with kernel(*RUN, "--memory", "300M", "--") as one:
        assert one.last_cell("kept = [bytearray(1 << 20) for _ in range(4096)]") > 128
    assert "memory limit" in Path("stderr.txt").read_text(errors="replace")
