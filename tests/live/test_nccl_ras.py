"""What NCCL's RAS says: a program that answers as the user guide of NCCL has it."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from builders.commands import report
from postmortem.readers.live.nccl_ras import ras_of

_TEXT = """\
NCCL version 2.24.0 compiled with CUDA 12.6

Job summary
===========

  Nodes  Processes
      2          8

Communicators... (0.00s)
=============

Group     Comms  Status  Errors
    0         1  RUNNING  INCOMPLETE

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
    Process 4711 on node 10.0.0.2 managing GPU 5

Warnings
========

#0-0 (5e9a6f3a) MISMATCH
  Communicator ranks have different collective operation counts
"""
_SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        line, _ = server.accept()
        asked = line.makefile().readline()
        if ANSWERS and asked == "verbose status\\n":
            line.sendall(TEXT.encode())
            line.close()
        kept = line
"""
_RANK = "import sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture(params=[_TEXT, "SSH-2.0-OpenSSH_9.2\\n", None], ids=["ras", "another", "mute"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[int, int, str | None]]:
    """The pid and port of what listens, and what it answers; None: nothing."""
    code = f"TEXT, ANSWERS = {request.param!r}, {request.param is not None}\n{_SERVER}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield child.pid, int(child.stdout.readline()), request.param
        finally:
            child.kill()


def test_a_process_of_the_job_is_asked(server: tuple[int, int, str | None]) -> None:
    pid, port, says = server
    env = {"NCCL_RAS_ADDR": f"localhost:{port}", "RANK": "0", "WORLD_SIZE": "2"}
    with subprocess.Popen(
        [sys.executable, "-c", _RANK],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as rank:
        try:
            assert rank.stdout is not None
            assert rank.stdout.readline() == "ready\n"
            alone = report("hang", rank.pid, "--samples", "1")["nccl_ras"]
            found = report("hang", rank.pid, pid, "--samples", "1")["nccl_ras"]
        finally:
            rank.kill()
    assert alone is None  # who listens there is none of this job
    if says != _TEXT:
        assert found is None
        return
    assert found["errors"][0] == "DEAD"
    assert "Process 4711 on node 10.0.0.2" in found["errors"][2]
    assert found["warnings"][0].endswith("MISMATCH")


def test_a_healthy_job_has_neither() -> None:
    found = ras_of(_TEXT.partition("Errors\n======")[0])
    assert found is not None
    assert (found.errors, found.warnings) == ((), ())


@pytest.mark.parametrize("text", ["", "\0" * 100, "Errors\n======\nx", "=" * 9999, "A\n=\n" * 999])
def test_what_is_no_report(text: str) -> None:
    assert ras_of(text) is None
