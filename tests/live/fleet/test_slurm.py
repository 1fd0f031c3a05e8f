"""``postmortem fleet`` and ``postmortem net`` under a real SLURM of three hosts in namespaces."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.networks import POSTMORTEM, document, ended
from builders.slurm import Cluster, NoSlurm
from builders.slurm import cluster as slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

_RANK = """
import os, sys, time
def waits():
    time.sleep(600)
def reads():
    open(sys.argv[1]).read()
reads() if os.environ["SLURM_PROCID"] == "4" else waits()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        with slurm(tmp_path_factory.mktemp("slurm"), 3) as made:
            yield made
    except NoSlurm as why:
        pytest.skip(str(why))


def test_all_nodes_of_a_job_try_each_other(cluster: Cluster) -> None:
    words = ["srun", "-N3", "--ntasks-per-node=2", "--quiet", *POSTMORTEM, "net", "--json"]
    found = document(cluster.start(*words, "--no-torch", "--no-speed"), 0)
    assert found["outcome"] == "healthy"
    assert found["world_size"] == 3
    assert [node["host"] for node in found["nodes"]] == ["h0", "h1", "h2"]


def test_hang_over_all_nodes_of_a_job(cluster: Cluster, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    rank = tmp_path / "rank.py"
    rank.write_text(_RANK)
    inner = shlex.join(["srun", "--quiet", sys.executable, str(rank), str(fifo)])
    said = cluster.run(
        "sbatch", "--parsable", "-N3", "--ntasks-per-node=2", "-o", "/dev/null", "--wrap", inner
    )
    job = said.strip()
    try:
        until_running(cluster, job)
        remote = shlex.join(POSTMORTEM)
        words = [*POSTMORTEM, "fleet", "--json", "--job", job, "--remote", remote]
        found = document(cluster.start(*words, "hang", "--job", job, "--gap", "0.3"), 1)
        assert found["engine"] == "srun"
        assert (found["nodes_asked"], found["nodes_answered"]) == (3, 3), found["silent"]
        assert sorted(one["processes"] for one in found["standing"]) == [1, 5]
        odd = [one for one in found["diagnoses"] if one["id"] == "odd_ranks"]
        assert len(odd) == 1
        assert (odd[0]["about"]["rank"], odd[0]["about"]["host"]) == (4, "h2")
        found = document(cluster.start(*words, "net", "--no-torch", "--no-speed"), 0)
        assert found["nodes_answered"] == 3
        assert found["diagnoses"] == []
    finally:
        cluster.run("scancel", job)


def until_running(cluster: Cluster, job: str) -> None:
    ends = time.monotonic() + 60
    while True:
        rows = cluster.run(
            "srun",
            f"--jobid={job}",
            "--overlap",
            "--quiet",
            "-N3",
            "--ntasks-per-node=1",
            "sh",
            "-c",
            "pgrep -fc [r]ank.py || true",
        )
        if sum(int(row) for row in rows.split() if row.isdigit()) >= 6:
            return
        assert time.monotonic() < ends, rows
        time.sleep(0.5)


def test_a_job_that_is_not_there(cluster: Cluster) -> None:
    status, out, err = ended(cluster.start(*POSTMORTEM, "fleet", "--job", "4711", "doctor"))
    assert (status, out) == (3, "")
    assert "job 4711" in err
