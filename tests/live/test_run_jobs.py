"""`postmortem run` over real launchers: who failed first, and where the others stood then."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.manifests import told, traceback
from builders.processes import speaking

RUN = [sys.executable, "-m", "postmortem", "run"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
SLOWLY = ["--monitor-interval", "5"]
"""It looks at its ranks every 5 s. One fails right after it has looked, so that even a slow machine
has time for what is done before the rest is ended."""
PROGRAMS = Path(__file__).parents[1] / "programs"

JOB = """
import ctypes, os, signal, sys, time
began = time.time()
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
others = [f"rank.{other}" for other in range(dist.get_world_size()) if other != 1]
def train(step, batch):
    if step == 3 and rank == 1:
        fail(batch)
    if step == 3 and rank != 1:
        os.symlink(str(os.getpid()), f"rank.{rank}")
    dist.all_reduce(batch)
def wait(mark):  # until that rank waits in the collective
    while not os.path.lexists(mark):
        time.sleep(0.01)
    while open(f"/proc/{os.readlink(mark)}/stat").read().rpartition(")")[2].split()[0] != "S":
        time.sleep(0.01)
    os.unlink(mark)
def fail(batch):
    weight = torch.zeros(3, 5)
    for mark in others:
        wait(mark)
    while not 0.5 < (time.time() - began) % 5 < 1:
        time.sleep(0.01)
    if sys.argv[-1] == "raise":
        return batch @ weight
    if sys.argv[-1] == "segv":
        ctypes.string_at(8)
    if sys.argv[-1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
for step in range(6):
    train(step, torch.ones(4))
dist.barrier()
dist.destroy_process_group()  # else gloo's threads may still run when the interpreter ends
"""

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch")
    (tmp_path / "job.py").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(PROGRAMS / "quick"))
    for name in ("POSTMORTEM_RUN", "RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_ERROR_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *words], capture_output=True, text=True, timeout=380, check=False)


def left(place: Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder that was left, and its manifest."""
    (folder,) = place.glob("postmortem-*")
    return folder, json.loads((folder / "manifest.json").read_text())


def failures(said: str) -> str:
    """Return all of torchrun's summary."""
    return said.partition("ChildFailedError")[2].rpartition("=====")[0]


def summary(said: str) -> str:
    """Return torchrun's root cause."""
    return said.partition("Root Cause")[2].partition("=====")[0]


def test_rank_that_raises(place: Path) -> None:
    done = run("--", *TORCHRUN, *SLOWLY, "--nproc-per-node", "3", "job.py", "raise")
    assert done.returncode == 1
    folder, said = left(place)
    assert told(said) == ([1], ["rank_raised"])
    assert traceback(said)[3] == "fail"
    assert "weight" in (folder / "report.txt").read_text()
    # The others were read before the launcher ended them, in the collective that they waited in.
    stacks = json.loads((folder / "stacks" / "failure-1.json").read_text())
    assert sorted(one["rank"] for one in stacks["processes"]) == [0, 2]
    assert {one["pid"] for one in stacks["processes"]} <= {p["pid"] for p in said["processes"]}
    assert "all_reduce" in (folder / "stacks" / "failure-1.txt").read_text()
    # There is no @record in the job, and its traceback stands in torchrun's summary all the same.
    assert "mat1 and mat2 shapes" in summary(done.stderr)
    assert "rank 1 failed" in summary(done.stderr)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        # Its word for several processes of one host; no GPU is asked for.
        ("accelerate.commands.launch", "--multi_gpu --num_processes 2 --num_machines 1"),
        ("deepspeed.launcher.runner", "--num_accelerators 2"),
    ],
)
@pytest.mark.parametrize("ending", ["raise", "well"])
def test_launchers_of_libraries(
    module: str, words: str, ending: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(module.partition(".")[0], exc_type=ImportError)
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    done = run("--", sys.executable, "-m", module, *words.split(), "job.py", ending)
    assert done.returncode == (ending == "raise"), done.stderr
    if ending == "raise":
        assert told(left(place)[1]) == ([1], ["rank_raised"])
    else:
        assert [one.name for one in place.iterdir()] == ["job.py"]


def test_rank_that_crashes(place: Path) -> None:
    done = run("--", *TORCHRUN, *SLOWLY, "--nproc-per-node", "2", "job.py", "segv")
    assert done.returncode == 1
    _, said = left(place)
    assert said["conclusion"]["ranks"] == [1]
    crashed = next(one for one in said["processes"] if one["rank"] == 1)
    assert crashed["exit"]["signal"] == "SIGSEGV"
    # torchrun's summary has the Python stack: our word has reached it before it was written.
    assert "in fail" in failures(done.stderr)


def test_rank_that_is_killed(place: Path) -> None:
    done = run("--", *TORCHRUN, "--nproc-per-node", "2", "job.py", "kill")
    assert done.returncode == 1
    _, said = left(place)
    assert told(said) == ([1], ["rank_crashed"])
    killed = next(one for one in said["processes"] if one["rank"] == 1)
    assert killed["exit"] == {"code": None, "signal": "SIGKILL"}
    assert killed["peak_rss_bytes"]
    assert "by SIGKILL" in summary(done.stderr)


def test_no_line_of_the_hook_runs_in_a_training_step(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH")  # an optimizer needs all of PyTorch
    (place / "step.py").write_text(
        "import sys, torch\n"
        "model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "found = []\n"
        "def seen(frame, event, argument):\n"
        "    found.append('_postmortem_' in frame.f_code.co_filename)\n"
        "sys.setprofile(seen)\n"
        "for _ in range(3):\n"
        "    model(torch.ones(2, 4)).sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
        "sys.setprofile(None)\n"
        "print('_postmortem_hook' in sys.modules, len(found) > 50, sum(found))\n"
    )
    assert run("--", sys.executable, "step.py").stdout == "True True 0\n"


def test_time_out_of_a_job_that_hangs(place: Path) -> None:
    ranks = [sys.executable, str(PROGRAMS / "some_ranks.py"), "3"]
    ranks += [sys.executable, str(PROGRAMS / "meeting_ranks.py"), "stuck"]
    done = run("--timeout", "10", "--", *ranks)
    folder, said = left(place)
    assert said["timed_out"]
    assert said["explained_by"] == "hang"
    assert said["conclusion"]["ranks"] == [1]
    assert (folder / "stacks" / "timeout.json").exists()
    assert " 10 s" in done.stderr


MPI = """
import os, time
rank = int(os.environ["VARIABLE"])
def load(shard):
    if shard == 1:
        raise FileNotFoundError(f"shard-{shard}.bin")
    time.sleep(300)
load(rank)
"""


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs an mpirun")
def test_mpirun(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    (place / "mpi.py").write_text(MPI.replace("VARIABLE", "OMPI_COMM_WORLD_RANK"))
    done = run("--", "mpirun", "--oversubscribe", "-np", "3", sys.executable, "mpi.py")
    assert done.returncode == 1
    _, said = left(place)
    assert said["conclusion"]["ranks"] == [1]
    assert traceback(said) == ("FileNotFoundError", "shard-1.bin", 6, "load")


def test_mp_spawn(place: Path) -> None:
    (place / "spawn.py").write_text(
        "import torch, torch.multiprocessing as mp\n"
        "def work(rank, batch):\n"
        "    if rank == 1:\n"
        "        raise KeyError('column')\n"
        "if __name__ == '__main__':\n"
        "    mp.spawn(work, (torch.ones(2, 3),), nprocs=2)\n"
    )
    assert run("--", sys.executable, "spawn.py").returncode == 1
    folder, said = left(place)
    assert traceback(said) == ("KeyError", "'column'", 4, "work")
    assert "Tensor, shape (2, 3), torch.float32, cpu" in (folder / "report.txt").read_text()


def test_sigterm_from_outside_tells_where_it_stood(place: Path) -> None:
    (place / "waits.py").write_text(
        "import threading\ndef waits_for_ever():\n    print('ready', flush=True)\n"
        "    threading.Event().wait()\nwaits_for_ever()\n"
    )
    with speaking(*RUN, "--", sys.executable, "waits.py") as (running, said):
        said.readline()
        running.terminate()
        assert running.wait(120) == 128 + signal.SIGTERM
    folder, said = left(place)
    assert said["stopped_by"] == signal.SIGTERM
    assert "waits_for_ever" in (folder / "stacks" / "end.txt").read_text()
