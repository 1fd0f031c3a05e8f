"""``postmortem fleet`` and ``postmortem net`` under a real SLURM of three hosts in namespaces."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.networks import POSTMORTEM, Network, document, ended, network, why_not

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

_CONF = """\
ClusterName=pm
SlurmctldHost=h0({first})
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MpiDefault=none
SlurmdParameters=config_overrides
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
"""
_RANK = """
import os, sys, time
def waits():
    time.sleep(600)
def reads():
    open(sys.argv[1]).read()
reads() if os.environ["SLURM_PROCID"] == "4" else waits()
"""


class Cluster:
    """Three hosts, each with a slurmd that has processes of its own (a PID namespace)."""

    def __init__(self, net: Network, folder: Path) -> None:
        self.net = net
        self.env = {"SLURM_CONF": str(folder / "slurm.conf")}
        rows = [f"NodeName=h{i} NodeAddr={net.address(i)} CPUs=8 State=UNKNOWN" for i in range(3)]
        rows.append("PartitionName=p Nodes=h[0-2] Default=YES State=UP OverSubscribe=YES")
        conf = _CONF.format(first=net.address(0), folder=folder) + "\n".join(rows) + "\n"
        (folder / "slurm.conf").write_text(conf)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (folder / "state").mkdir()
        net.spawn(0, ["slurmctld", "-D", "-i"], env=self.env)
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        for index in range(3):
            (folder / f"spool.h{index}").mkdir()
            net.spawn(index, [*alone, "slurmd", "-D", "-N", f"h{index}"], env=self.env)

    def wait(self) -> None:
        ends = time.monotonic() + 60
        while self.run("sinfo", "-h", "-t", "idle", "-o", "%D") != "3\n":
            if time.monotonic() > ends:
                said = self.run("sinfo", "-h", "-N", "-o", "%N %t %E").split("\n")
                pytest.skip(f"SLURM does not come up here: {'; '.join(said)}")
            time.sleep(0.5)

    def run(self, *words: str) -> str:
        return ended(self.net.spawn(0, words, env=self.env))[1]

    def start(self, *words: str) -> subprocess.Popen[str]:
        return self.net.spawn(0, words, env=self.env)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    for program in ("slurmctld", "slurmd", "srun", "sbatch", "squeue"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} (slurm-wlm)")
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root here")
    if (why := why_not()) is not None:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("slurm")
    with network(folder, 3) as net:
        made = Cluster(net, folder)
        made.wait()
        yield made
        made.run("scancel", "--user=root")
        time.sleep(1)


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
        assert "rank 4 on h2" in odd[0]["title"]
        found = document(cluster.start(*words, "net", "--no-torch", "--no-speed"), 0)
        assert found["nodes_answered"] == 3
        assert "all 3 nodes can talk" in found["verdict"]
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
