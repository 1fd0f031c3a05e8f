"""deploy/slurm under a real SLURM: the batch script, and the scripts around each job."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.networks import ended
from builders.processes import until
from builders.slurm import Cluster, NoSlurm
from builders.slurm import cluster as slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

RECIPES = Path(__file__).parents[3] / "deploy" / "slurm"
TRAIN = """
import os, sys, time
def load(shard):
    if "bad" in sys.argv and shard == 1:
        raise FileNotFoundError(f"shard-{shard}.bin")
    time.sleep(600 if "long" in sys.argv else 30 if "bad" in sys.argv else 0)
print("temporary files:", os.environ["TMPDIR"], os.stat(os.environ["TMPDIR"]).st_mode & 0o777)
sys.stdout.flush()
load(int(os.environ["SLURM_PROCID"]))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all hosts see, with `postmortem` and SLURM's scripts in it."""
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "bin").mkdir()
    ours = folder / "bin" / "postmortem"
    ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m postmortem "$@"\n')
    ours.chmod(0o755)
    (folder / "train.py").write_text(TRAIN)
    for name in ("prolog.sh", "task-prolog.sh", "epilog.sh"):
        script = folder / name
        lines = [
            "#!/bin/sh",
            f"export POSTMORTEM_NODE_FOLDER={folder}/node-$SLURMD_NODENAME",
            f"export POSTMORTEM_KEEP={folder}/kept",
            f"exec {RECIPES / name}",
        ]
        script.write_text("\n".join(lines) + "\n")
        script.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[Cluster]:
    rows = [("Prolog", "prolog.sh"), ("TaskProlog", "task-prolog.sh"), ("Epilog", "epilog.sh")]
    more = "\n".join(f"{name}={place / file}" for name, file in rows)
    state = place / "slurm"
    state.mkdir()
    try:
        with slurm(state, 2, more + "\nPrologFlags=Alloc") as made:
            yield made
    except NoSlurm as why:
        pytest.skip(str(why))


def submitted(cluster: Cluster, place: Path, *words: str) -> tuple[str, Path]:
    """Return the number of a job and its output."""
    command = ["sbatch", "--parsable", "-N2", f"--chdir={place}", "--output=%j.out"]
    command += [f"--export=ALL,PATH={place / 'bin'}:/usr/bin:/bin:/usr/sbin:/sbin"]
    command += [str(RECIPES / "job.sbatch"), sys.executable, *words]
    status, said, err = ended(cluster.start(*command))
    assert status == 0, err
    return said.strip(), place / f"{said.strip()}.out"


def over(cluster: Cluster, job: str) -> str:
    """Return how a job ended, when it has and its nodes are free again."""
    ends = ("JobState=COMPLETED", "JobState=FAILED", "JobState=CANCELLED")
    until(lambda: any(word in cluster.run("scontrol", "show", "job", job) for word in ends))
    return cluster.run("scontrol", "show", "job", job)


def runs(evidence: Path) -> list[int]:
    """Return the processes of `postmortem run` that write there, of all hosts."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            if b"postmortem" in words and str(evidence).encode() in words:
                found.append(int(path.name))
    return found


def free(cluster: Cluster) -> bool:
    """Return whether no node was drained."""
    return set(cluster.run("sinfo", "-h", "-N", "-o", "%t").split()) == {"idle"}


def test_a_job_that_fails_has_one_verdict_over_its_nodes(cluster: Cluster, place: Path) -> None:
    job, output = submitted(cluster, place, "train.py", "bad")
    assert "JobState=FAILED" in over(cluster, job)
    evidence = place / "evidence" / job
    verdict = (evidence / "verdict.txt").read_text()
    assert "FileNotFoundError: shard-1.bin" in verdict
    assert verdict in output.read_text()
    assert f"temporary files: {place}/node-h1/{job} {0o700}" in output.read_text()
    until(lambda: not list(place.glob(f"node-*/{job}")))  # the epilog has been there
    until(lambda: free(cluster))
    assert not (place / "kept").exists()


def test_of_a_job_that_is_well_nothing_is_left(cluster: Cluster, place: Path) -> None:
    job, _ = submitted(cluster, place, "train.py")
    assert "JobState=COMPLETED" in over(cluster, job)
    assert not (place / "evidence" / job).exists()
    until(lambda: not list(place.glob(f"node-*/{job}")))


@pytest.mark.torch
def test_torchrun_makes_one_job_of_all_nodes(cluster: Cluster, place: Path) -> None:
    told = "os.write(1, b'ranks: %s\\n' % os.environb[b'WORLD_SIZE'])"  # in one piece
    (place / "size.py").write_text(f"import os\n{told}\n")
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    job, output = submitted(cluster, place, *launcher, "size.py")
    assert "JobState=COMPLETED" in over(cluster, job)
    assert output.read_text().count("ranks: 4") == 4


def test_what_a_killed_run_left_is_kept(cluster: Cluster, place: Path) -> None:
    job, output = submitted(cluster, place, "train.py", "long")
    until(lambda: output.exists() and output.read_text().count("temporary files") == 2)
    for pid in runs(place / "evidence" / job):
        with contextlib.suppress(ProcessLookupError):  # its node may have ended with the other one
            os.kill(pid, signal.SIGKILL)
    cluster.run("scancel", job)
    over(cluster, job)
    until(lambda: not list(place.glob(f"node-*/{job}")))
    kept = sorted(path.name for path in (place / "kept" / job).iterdir())
    assert kept == ["h0.tar.gz", "h1.tar.gz"]
    until(lambda: free(cluster))


@pytest.mark.parametrize("name", ["prolog.sh", "task-prolog.sh", "epilog.sh"])
def test_they_never_fail(name: str, tmp_path: Path) -> None:
    """A node would be drained for it: not even where there is no place, or no job."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    for job in ("12", "", "../.."):
        env = {"PATH": "/usr/bin:/bin", "POSTMORTEM_NODE_FOLDER": str(blocked)}
        env |= {"SLURM_JOB_ID": job, "SLURM_JOB_UID": "0", "POSTMORTEM_KEEP": str(blocked)}
        done = subprocess.run(["sh", RECIPES / name], env=env, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "")
    assert blocked.exists()
