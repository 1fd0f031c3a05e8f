"""``postmortem fleet --dask`` over real workers, on real cores in a folder that all of them see."""

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.commands import call
from builders.schema import validate
from live.conftest import CrashedProcess

if importlib.util.find_spec("distributed") is None:
    pytest.skip("no dask.distributed here", allow_module_level=True)
_SECONDS = 60
REMOTE = ("--remote", f"{sys.executable} -m postmortem")
_SEGV = "import ctypes; ctypes.string_at(0)"
_ABORT = "import os; os.abort()"


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers, each a process."""
    folder = tmp_path_factory.mktemp("dask")
    command = [sys.executable, "-c", _CLUSTER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    ) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.communicate("end\n", timeout=_SECONDS)


_CLUSTER = """
import dask
from distributed import LocalCluster
if __name__ == "__main__":
    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})  # imports once
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


def fleet(code: int, *words: str | Path) -> tuple[dict[str, Any], str]:
    done = call("fleet", "--json", *REMOTE, *words)
    assert done.returncode == code, (done.stdout[-2000:], done.stderr[-2000:])
    if not done.stdout:
        return {}, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    validate(found)
    return found, done.stderr


@pytest.mark.cores
@pytest.mark.slow
def test_collect_shares_cores_out(
    scheduler: str, crash: Callable[..., CrashedProcess], tmp_path: Path
) -> None:
    storage, kept = tmp_path / "storage", tmp_path / "kept"
    storage.mkdir()
    kept.mkdir()
    for number, text in enumerate((_SEGV, _SEGV, _SEGV, _ABORT)):
        core = crash([sys.executable, "-c", text]).core
        shutil.copyfile(core, storage / f"core.{number}")
    found, _ = fleet(1, "--dask", scheduler, "-d", kept, "collect", storage)
    counts = sorted(row["count"] for row in found["crashes"])
    assert counts == [1, 3]
    assert found["nodes_asked"] == found["nodes_answered"] == 1
    slim = sorted(kept.iterdir())
    assert len(slim) == 2
    assert all(path.read_bytes()[:4] == b"\x7fELF" for path in slim)


@pytest.mark.cores
@pytest.mark.slow
def test_collect_through_fsspec(
    scheduler: str, crash: Callable[..., CrashedProcess], tmp_path: Path
) -> None:
    """Cores that workers fetch by an address, and that are named by it in the report."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "storage" / "job").mkdir(parents=True)
    shutil.copyfile(crash([sys.executable, "-c", _SEGV]).core, tmp_path / "storage/job/core.1")
    address = f"file://{tmp_path}/storage"
    found, _ = fleet(1, "--dask", scheduler, "-d", kept, "collect", address)
    (row,) = found["crashes"]
    assert row["count"] == 1
    assert f"{address}/job/core.1" in json.dumps(row)
    assert [path.read_bytes()[:4] for path in kept.iterdir()] == [b"\x7fELF"]
    assert not list(Path(tempfile.gettempdir()).glob("postmortem-*/0/core.1"))


def test_doctor_on_one_worker_of_each_host(scheduler: str) -> None:
    done = call("fleet", "--json", *REMOTE, "--dask", scheduler, "doctor")
    found = json.loads(done.stdout)
    validate(found)
    assert (found["nodes_asked"], found["nodes_answered"]) == (1, 1)


def test_what_cannot_begin(scheduler: str, tmp_path: Path) -> None:
    empty = tmp_path / "none"
    empty.mkdir()
    _, said = fleet(3, "--dask", scheduler, "-d", tmp_path, "collect", empty)
    assert (said.count("\n"), str(empty) in said) == (1, True)
    _, said = fleet(3, "--dask", scheduler, "-w", "node1", "doctor")
    assert said.startswith("postmortem: --dask ")
    _, said = fleet(3, "--dask", "tcp://127.0.0.1:9", "doctor")
    assert " tcp://127.0.0.1:9" in said
    assert said.count("\n") == 1


def test_a_program_that_is_not_there(scheduler: str) -> None:
    found, _ = fleet(1, "--dask", scheduler, "--remote", "/nonexistent/postmortem", "doctor")
    assert found["nodes_answered"] == 0
