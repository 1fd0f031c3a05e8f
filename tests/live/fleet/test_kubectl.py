"""``postmortem fleet --engine kubectl``: the real kubectl, with pods of a small server of ours."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from builders.commands import crash_in, execute
from builders.networks import POSTMORTEM, network, why_not
from builders.pods import Run, cluster
from builders.schema import validate

_OLDEST = (1, 31)
"""The first kubectl that speaks by WebSocket without being asked to."""


@pytest.fixture(autouse=True)
def _a_kubectl_that_is_new_enough() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl")
    asked = ["kubectl", "version", "--client", "-o", "json"]
    said = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)
    version = said["clientVersion"]
    if (int(version["major"]), int(version["minor"].rstrip("+"))) < _OLDEST:
        pytest.skip(f"kubectl {version['gitVersion']} is too old for our server")


def fleet(folder: Path, pods: Sequence[str], run: Run, code: int, *words: object) -> dict[str, Any]:
    remote = f"{sys.executable} -m postmortem"
    command = [*POSTMORTEM, "fleet", "--engine", "kubectl", "--remote", remote, "--json"]
    with cluster(folder, pods, run) as config:
        done = execute([*command, *map(str, words)], env={**os.environ, "KUBECONFIG": str(config)})
    assert done.returncode == code, (done.stdout[-2000:], done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout)
    validate(found)
    return found


def plainly(pod: str, command: Sequence[str]) -> Sequence[str]:
    """Run it as it is, as if the pod were this machine."""
    return ["env", f"POD={pod}", *command]


def test_pods_that_answer_and_one_that_is_not_there(tmp_path: Path) -> None:
    job = f"job-of-{os.getpid()}-"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)", f"{job}{pod}-"],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank, pod in enumerate(("worker-0", "worker-1"))
    ]

    def of_its_pod(pod: str, command: Sequence[str]) -> Sequence[str]:
        return plainly(pod, [word.replace(f"{job}POD", f"{job}{pod}-") for word in command])

    try:
        words = ("-w", "worker-[0-1],worker-9", "hang", "--job", f"{job}POD", "--gap", "0.3")
        found = fleet(tmp_path, ("worker-0", "worker-1"), of_its_pod, 1, *words)
    finally:
        for one in ranks:
            one.send_signal(signal.SIGKILL)
            one.wait()
    assert found["nodes_answered"] == 2, found["silent"]
    assert [one["node"] for one in found["silent"]] == ["worker-9"]


def test_net_between_pods(tmp_path: Path) -> None:
    if (why := why_not()) is not None:
        pytest.skip(why)
    with network(tmp_path, 2) as net:
        hosts = tmp_path / "hosts"
        rows = [f"{net.address(index)} h{index}\n" for index in range(2)]
        hosts.write_text("127.0.0.1 localhost\n" + "".join(rows))

        def in_its_namespace(pod: str, command: Sequence[str]) -> Sequence[str]:
            inner = f"hostname {pod}; mount --bind {hosts} /etc/hosts; {shlex.join(command)}"
            entered = ["ip", "netns", "exec", net.name(int(pod.removeprefix("h")))]
            return [*entered, "unshare", "--uts", "--mount", "sh", "-c", inner]

        words = ("-w", "h[0-1]", "net", "--no-torch", "--no-speed", "--timeout", "2")
        found = fleet(tmp_path, ("h0", "h1"), in_its_namespace, 0, *words)
        assert found["nodes_answered"] == 2, found["silent"]


def test_an_exec_that_never_ends_keeps_nobody_waiting(tmp_path: Path) -> None:
    never = f"1000.{os.getpid()}"

    def hung(pod: str, command: Sequence[str]) -> Sequence[str]:
        return ["sleep", never] if pod == "worker-1" else plainly(pod, command)

    words = ("-w", "worker-[0-1]", "--deadline", "10", "doctor")
    found = fleet(tmp_path, ("worker-0", "worker-1"), hung, 1, *words)
    assert [one["node"] for one in found["silent"]] == ["worker-1"], found["silent"]
    done = subprocess.run(["pgrep", "-f", f"sleep {never}$"], capture_output=True, text=True)
    assert done.stdout == ""


@pytest.mark.cores
def test_a_slim_core_comes_whole(tmp_path: Path) -> None:
    there, here = tmp_path / "cores", tmp_path / "here"
    here.mkdir()
    crash_in(there, [sys.executable, "-c", "import ctypes; ctypes.string_at(8)"])
    found = fleet(tmp_path, ("w-0",), plainly, 1, "-w", "w-0", "-d", here, "collect", there)
    assert [one["count"] for one in found["crashes"]] == [1]
    (slim,) = here.iterdir()
    read = [*POSTMORTEM, "core", str(slim), "--engine", "native", "--json"]
    done = subprocess.run(read, capture_output=True, text=True, timeout=100)
    assert json.loads(done.stdout)["signature"]["hash"] == found["crashes"][0]["hash"]
