"""Breakpoints in jobs of mpirun and srun, and over several nodes."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders.forks import needs_torch
from builders.slurm import Cluster, NoSlurm
from builders.slurm import cluster as slurm
from builders.terminals import SECONDS, Job, Terminal, all_wait_for_one
from live.breakpoints.conftest import FORKED

RANKS = Path(__file__).parents[2] / "programs" / "breakpoints" / "ranks.py"
PLAIN = RANKS.with_name("plain.py")
SHORT = 3.0


def test_mpirun(
    needs: Callable[[str], str],
    start: Callable[..., Job],
    attach: Callable[..., Terminal],
    tmp_path: Path,
) -> None:
    needs_torch()
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    words = [needs("mpirun"), *root, "--oversubscribe", "-n", "2", sys.executable, RANKS, "plain"]
    job = start([*words, str(SHORT)], STORE=f"file://{tmp_path}/store")
    held(job, attach, 2)


def test_mpirun_without_a_process_group(
    needs: Callable[[str], str], start: Callable[..., Job], attach: Callable[..., Terminal]
) -> None:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    job = start(
        [needs("mpirun"), *root, "--oversubscribe", "-n", "3", sys.executable, PLAIN, "stop"]
    )
    all_wait_for_one(job, attach())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A Slurm of two hosts."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    try:
        with slurm(folder, 2) as made:
            yield made
    except NoSlurm as why:
        pytest.skip(str(why))


def test_srun(
    cluster: Cluster, start: Callable[..., Job], terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    """Rank 1 stops on the first host; who attaches sits on the second one."""
    needs_torch()
    net = cluster.net
    hosts = [["ip", "netns", "exec", net.name(index)] for index in range(2)]
    words = [*hosts[0], "srun", "-N2", "--ntasks-per-node=2", sys.executable, RANKS, "plain"]
    more = {"STORE": f"file://{tmp_path}/store", "GLOO_SOCKET_IFNAME": "e0"}
    job = start([*words, str(SHORT)], POSTMORTEM_LISTEN=net.address(0), **more, **cluster.env)
    attach = [*hosts[1], sys.executable, "-m", "postmortem", "attach", "--wait", str(SECONDS)]
    held(job, lambda: terminal(attach), 4)


def held(job: Job, attach: Callable[[], Terminal], ranks: int) -> None:
    """Rank 1 stops longer than the time-out lasts; all end well."""
    near = attach()
    near.until("(rank 1) ")
    time.sleep(SHORT + 2)
    near.type("c\r")
    near.rest()
    assert job.ends() == 0
    assert job.output.count("] over") == ranks


@pytest.fixture
def two_nodes() -> Iterator[list[list[str]]]:
    """Return what runs a command on one of two nodes: namespaces of networks, joined by a wire."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and ip for namespaces of networks")
    names = [f"pm-{os.getpid()}-{n}" for n in (0, 1)]
    made = []
    try:
        for name in names:
            ip("netns", "add", name)
            made.append(name)
        ip("-n", names[0], "link", "add", "wire", "type", "veth", "peer", "wire", "netns", names[1])
        for number, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.88.7.{number + 1}/24", "dev", "wire")
            for link in ("lo", "wire"):
                ip("-n", name, "link", "set", link, "up")
        yield [["ip", "netns", "exec", name] for name in names]
    finally:
        for name in made:
            ip("netns", "del", name)


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"ip {' '.join(words)}: {done.stderr.strip()}")


def test_two_nodes(
    two_nodes: list[list[str]],
    start: Callable[..., Job],
    terminal: Callable[..., Terminal],
    env: dict[str, str],
) -> None:
    """Rank 1 stops on the first node; who attaches sits on the second one, and shares a folder."""
    needs_torch()
    jobs = []
    for node, prefix in enumerate(two_nodes):
        words = [*prefix, sys.executable, "-m", "torch.distributed.run", *FORKED, "--nnodes", "2"]
        words += ["--nproc-per-node", "2", "--node-rank", str(node), "--master-addr", "10.88.7.1"]
        words += ["--master-port", "29577", RANKS, "plain", str(SHORT)]
        jobs.append(start(words, POSTMORTEM_LISTEN="10.88.7.1", GLOO_SOCKET_IFNAME="wire"))
    words = [*two_nodes[1], sys.executable, "-m", "postmortem", "attach", "--wait", "100"]
    near = terminal(words)
    near.until("(rank 1) ")
    time.sleep(SHORT + 2)
    near.type("c\r")
    near.rest()
    assert [job.ends() for job in jobs] == [0, 0]
    assert sum(job.output.count("] over") for job in jobs) == 4
    assert "postmortem attach 10.88.7.1:" in jobs[0].output


def test_loopback_is_not_reached_from_another_node(
    two_nodes: list[list[str]], start: Callable[..., Job], env: dict[str, str]
) -> None:
    job = start([*two_nodes[0], sys.executable, PLAIN, "stop"])
    job.until("postmortem attach")
    words = [*two_nodes[1], sys.executable, "-m", "postmortem", "attach"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert "loopback" in done.stderr
