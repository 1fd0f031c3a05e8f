"""``postmortem fleet --ray`` over three nodes on this host, in a network of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from builders.commands import execute
from builders.schema import validate

pytest.importorskip("ray")

_CLUSTER = """
import subprocess, sys
from ray.cluster_utils import Cluster

if __name__ == "__main__":
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    small = {"num_cpus": 1, "object_store_memory": 80 << 20}
    head = {**small, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(**small)
    command = [sys.executable, "-m", "postmortem", "fleet", "--ray", cluster.address, "--json"]
    done = subprocess.run([*command, *sys.argv[1:]], capture_output=True, text=True)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    cluster.shutdown()
    sys.exit(done.returncode)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_node_is_asked_once(tmp_path: Path) -> None:
    script = tmp_path / "cluster.py"
    script.write_text(_CLUSTER)
    private = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*private, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces here")
    remote = f"{sys.executable} -m postmortem"
    words = ["--remote", remote, "doctor", "--host"]
    done = execute(
        [*private, sys.executable, str(script), *words],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout, done.stderr[-2000:]
    found = json.loads(done.stdout)
    validate(found)
    assert (found["nodes_asked"], found["nodes_answered"]) == (3, 3)
