"""``postmortem fleet`` by the real kubectl, against an API server of our own over namespaces."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from builders.networks import POSTMORTEM, Network, network, why_not
from builders.pods import api_server
from builders.schema import validate

PODS = ("worker-0", "worker-1", "worker-2", "bare", "hung")


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Network]:
    if (why := why_not()) is not None or (shutil.which("kubectl")) is None:
        pytest.skip(why or "no kubectl here")
    with network(tmp_path, 3) as made:
        yield made


@pytest.fixture
def config(net: Network, tmp_path: Path) -> Iterator[Path]:
    """kubectl's configuration: pods with a network and a host name each, as kubelets make them."""
    names = [f"{net.address(index)} worker-{index}\n" for index in range(3)]
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(names))

    def within(pod: str, words: list[str]) -> Sequence[str]:
        if pod == "hung":
            return ["sleep", "1000"]
        if pod == "bare":
            return ["sh", "-c", "exec no-such-program"]
        inside = f"hostname {pod}; mount --bind {hosts} /etc/hosts; exec {shlex.join(words)}"
        name = net.name(int(pod[-1]))
        return ["ip", "netns", "exec", name, "unshare", "--uts", "--mount", "sh", "-c", inside]

    with api_server(tmp_path, "training", PODS, within) as file:
        yield file


def fleet(config: Path, code: int, *words: str) -> dict[str, Any]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    env |= {"KUBECONFIG": str(config), "HOME": str(config.parent)}
    remote = f"{sys.executable} -m postmortem"
    options = ["--engine", "kubectl", "--engine-options", "-n training -c worker", "--json"]
    command = [*POSTMORTEM, "fleet", *options, "--remote", remote, *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=110, check=False, env=env
    )
    assert done.returncode == code, (done.stdout[-2000:], done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout)
    validate(found)
    return found


def test_pods_that_do_not_answer(config: Path) -> None:
    found = fleet(config, 1, "-w", "bare,hung,gone", "--deadline", "2", "doctor")
    assert found["verdict"].startswith("0 of 3 nodes answered; ")
    why = {row["node"]: row["why"] for row in found["silent"]}
    assert why.keys() == {"bare", "hung", "gone"}
    assert "has no postmortem" in why["bare"]
    assert why["hung"] == "gave no answer in time"
    assert 'pods "gone" not found' in why["gone"]


def test_net_between_pods(net: Network, config: Path) -> None:
    words = ("-w", "worker-[0-2]", "net", "--no-torch", "--no-speed", "--timeout", "2")
    assert "all 3 nodes can talk with each other" in fleet(config, 0, *words)["verdict"]
    net.drop(1, 2)
    verdict = fleet(config, 1, *words)["verdict"]
    assert "node 1 (worker-1) and node 2 (worker-2) cannot talk" in verdict
