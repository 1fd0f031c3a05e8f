"""torchrun on two hosts in network namespaces, each under a `run` of its own."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from builders.commands import execute
from builders.manifests import told, traceback
from builders.networks import Network, network, why_not
from builders.processes import until

POSTMORTEM = [sys.executable, "-m", "postmortem"]
QUICK = str(Path(__file__).parents[1] / "programs" / "quick")
SECONDS = 240
JOB = """
import datetime, os, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
kind, here = sys.argv[1], os.environ["RANK"]
# What is measured from here on is the network, not how far apart the ranks have begun.
open(f"began-{here}", "w").close()
while not all(os.path.exists(f"began-{other}") for other in range(int(os.environ["WORLD_SIZE"]))):
    time.sleep(0.05)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10 if kind == "apart" else 100))
rank = dist.get_rank()
def train(step, batch):
    if kind == "raise" and rank == 3 and step == 5:
        raise KeyError("shard-5")
    dist.all_reduce(batch)
    time.sleep(0.1)
for step in range(30 if kind in ("raise", "well") else 100000):
    train(step, torch.ones(4))
    if step == 3:
        dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=10))
        open(f"up-{rank}", "w").close()
dist.barrier()
dist.destroy_process_group()
"""

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(400)]
_why_not = cache(why_not)


class Nodes:
    """Two hosts with some ranks each; `end` waits for them."""

    def __init__(
        self, net: Network, place: Path, kind: str, interfaces: Sequence[str], ranks: int
    ) -> None:
        self.net, self.place, self.size = net, place, 2 * ranks
        words = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
        words += ["--master-addr", net.address(0), "--master-port", "29500"]
        for index, interface in enumerate(interfaces):
            ours = [*POSTMORTEM, "run", "--into", str(place / f"node{index}"), "--"]
            job = [*words, "--nproc-per-node", str(ranks), "--node-rank", str(index)]
            env = {"GLOO_SOCKET_IFNAME": interface, "OMP_NUM_THREADS": "1", "PYTHONPATH": QUICK}
            net.spawn(index, [*ours, *job, "job.py", kind], env=env)

    def wait_for_steps(self) -> None:
        """Wait until all ranks have made some steps."""
        until(lambda: len(list(self.place.glob("up-*"))) == self.size, "the job begins")

    def pids(self, index: int, *words: bytes) -> list[int]:
        """Return the processes of a host, or those in whose command line some words stand."""
        listed = execute(["ip", "netns", "pids", self.net.name(index)])
        found = []
        for pid in map(int, listed.stdout.split()):
            with suppress(OSError):
                argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if all(word in argv for word in words):
                    found.append(pid)
        return found

    def end(self, *indices: int) -> list[int]:
        """Return how the runs of some hosts ended."""
        return [self.net.running[index].wait(SECONDS) for index in indices]

    def manifest(self, index: int) -> dict[str, Any]:
        """Return what one of the runs has left."""
        (folder,) = (self.place / f"node{index}").iterdir()
        document: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
        return document

    def triage(self) -> dict[str, Any]:
        """Return the verdict over what both have left."""
        folders = [str(path) for path in self.place.glob("node*/*")]
        done = execute([*POSTMORTEM, "triage", *folders, "--json"])
        document: dict[str, Any] = json.loads(done.stdout)
        return document


Start = Callable[..., Nodes]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    pytest.importorskip("torch")
    why = _why_not()
    if why is not None:
        pytest.skip(why)
    (tmp_path / "job.py").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    for name in ("POSTMORTEM_RUN", "RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_ERROR_FILE"):
        monkeypatch.delenv(name, raising=False)
    with network(tmp_path, 2, bridged=True) as net:
        for host in (0, 1):
            rows = ["link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0"]
            net.ip(host, *rows, "link set docker0 up")
        made: list[Nodes] = []

        def begin(kind: str, *interfaces: str, ranks: int = 2) -> Nodes:
            made.append(Nodes(net, tmp_path, kind, interfaces or ("e0", "e0"), ranks))
            return made[-1]

        yield begin
        for one in made:
            for index in (0, 1):
                for pid in one.pids(index):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def ids(report: dict[str, Any]) -> list[str]:
    """Return what is diagnosed as a root."""
    return [one["id"] for one in report["diagnoses"] if one["role"] == "root"]


def is_undecided(manifest: dict[str, Any]) -> bool:
    """Return whether a node's own run blames no rank."""
    return told(manifest)[0] == [] and manifest["report"]["decided_by"] == "undecided"


def blamed(report: dict[str, Any]) -> list[int]:
    """Return the ranks that are said to be at fault with any confidence."""
    sure = [one for one in report["roots"] if one["confidence"] in ("certain", "likely")]
    return sorted({rank for one in sure for rank in one["ranks"]})


def test_a_job_that_is_well_leaves_nothing(start: Start) -> None:
    nodes = start("well", ranks=1)
    assert nodes.end(0, 1) == [0, 0]
    assert not list(nodes.place.glob("node*/*"))


def test_a_rank_that_raises_is_named_by_its_own_node_and_by_all_together(start: Start) -> None:
    nodes = start("raise")
    assert nodes.end(0, 1) == [1, 1]
    assert told(nodes.manifest(1)) == ([3], ["rank_raised"])
    assert traceback(nodes.manifest(1))[:2] == ("KeyError", "'shard-5'")
    assert is_undecided(nodes.manifest(0))
    assert blamed(nodes.triage()) == [3]


def test_an_agent_that_dies_and_then_all_of_its_node(start: Start) -> None:
    """Its ranks go on, and so does the job: nothing on the other node has failed until they end."""
    nodes = start("steps")
    nodes.wait_for_steps()
    (agent,) = set(nodes.pids(1, b"torch.distributed.run")) - set(nodes.pids(1, b"postmortem"))
    os.kill(agent, signal.SIGKILL)
    assert nodes.end(1) == [128 + signal.SIGKILL]
    said = nodes.manifest(1)
    assert (said["signal"], said["explained_by"]) == (signal.SIGKILL, "ending")
    assert any("2 of its" in note for note in said["notes"])
    assert nodes.net.running[0].poll() is None
    assert len(nodes.pids(1, b"job.py")) == 2
    # Who is left is not blamed, with nothing of the other node to be had.
    nodes.net.ip("r", "link set dev v1 down")
    for pid in nodes.pids(1):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(nodes.place / "node1")
    assert nodes.end(0) == [1]
    said = nodes.manifest(0)
    assert is_undecided(said)
    assert {one["rank"] for one in said["report"]["candidates"]} == {2, 3}
    assert blamed(nodes.triage()) == []


def test_a_link_that_is_cut_blames_nobody(start: Start) -> None:
    nodes = start("steps")
    nodes.wait_for_steps()
    nodes.net.ip("r", "link set dev v1 down")
    # The ranks give up after their time-out; the launcher of host 1 has lost its store with them.
    assert nodes.end(0) == [1]
    nodes.net.ip("r", "link set dev v1 up")
    assert nodes.end(1) == [1]
    assert is_undecided(nodes.manifest(0))
    assert is_undecided(nodes.manifest(1))
    assert blamed(nodes.triage()) == []


def test_an_interface_that_one_node_lacks_is_named(start: Start) -> None:
    nodes = start("apart", "e0", "eth9", ranks=1)
    assert nodes.end(0, 1) == [1, 1]
    assert "interface_not_found" in told(nodes.manifest(1))[1]
    assert "interface_not_found" not in told(nodes.manifest(0))[1]
    report = nodes.triage()
    assert report["diagnoses"][0]["id"] == "interface_not_found"
    assert "eth9" in report["verdict"]
    assert blamed(report) == []


def test_an_interface_that_leads_nowhere_blames_no_rank(start: Start) -> None:
    """Each host has a bridge of containers with the same address, as Docker makes it."""
    nodes = start("apart", "docker0", "docker0", ranks=1)
    assert nodes.end(0, 1) == [1, 1]
    for index in (0, 1):
        assert ids(nodes.manifest(index)["report"]) == ["peers_unreachable"]
    report = nodes.triage()
    assert ids(report) == ["peers_unreachable"]
    # Both nodes are of one job, though gloo gives up on one of them much later than on the other.
    assert report["runs"] == []
    assert blamed(report) == []
