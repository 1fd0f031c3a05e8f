"""A real SLURM on hosts in network namespaces."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builders.networks import Network, ended, network, why_not

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


class NoSlurm(Exception):
    """Why there can be none here."""


class Cluster:
    """Hosts ``h0``, …, each with a slurmd that has processes of its own (a PID namespace)."""

    def __init__(self, net: Network, folder: Path, more: str = "") -> None:
        """Start it; `more` are lines for slurm.conf."""
        self.net = net
        self.env = {"SLURM_CONF": str(folder / "slurm.conf")}
        rows = [
            f"NodeName=h{i} NodeAddr={net.address(i)} CPUs=8 State=UNKNOWN"
            for i in range(net.count)
        ]
        rows.append(
            f"PartitionName=p Nodes=h[0-{net.count - 1}] Default=YES State=UP OverSubscribe=YES"
        )
        conf = _CONF.format(first=net.address(0), folder=folder) + "\n".join(rows) + f"\n{more}\n"
        (folder / "slurm.conf").write_text(conf)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (folder / "state").mkdir()
        net.spawn(0, ["slurmctld", "-D", "-i"], env=self.env)
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        for index in range(net.count):
            (folder / f"spool.h{index}").mkdir()
            net.spawn(index, [*alone, "slurmd", "-D", "-N", f"h{index}"], env=self.env)

    def wait(self) -> None:
        ends = time.monotonic() + 60
        while self.run("sinfo", "-h", "-t", "idle", "-o", "%D") != f"{self.net.count}\n":
            if time.monotonic() > ends:
                said = self.run("sinfo", "-h", "-N", "-o", "%N %t %E").split("\n")
                raise NoSlurm(f"SLURM does not come up here: {'; '.join(said)}")
            time.sleep(0.5)

    def run(self, *words: str) -> str:
        return ended(self.net.spawn(0, words, env=self.env))[1]

    def start(self, *words: str) -> subprocess.Popen[str]:
        return self.net.spawn(0, words, env=self.env)


@contextmanager
def cluster(folder: Path, count: int, more: str = "") -> Iterator[Cluster]:
    """Make a cluster; raises NoSlurm. It is gone afterwards, with its jobs."""
    for program in ("slurmctld", "slurmd", "srun", "sbatch", "squeue"):
        if shutil.which(program) is None:
            raise NoSlurm(f"there is no {program} (slurm-wlm)")
    if os.geteuid() != 0:
        raise NoSlurm("slurmd needs root here")
    if (why := why_not()) is not None:
        raise NoSlurm(why)
    with network(folder, count) as net:
        made = Cluster(net, folder, more)
        made.wait()
        yield made
        made.run("scancel", "--user=root")
        time.sleep(1)
