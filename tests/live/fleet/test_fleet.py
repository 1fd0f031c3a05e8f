"""``postmortem fleet`` over hosts in network namespaces; what starts it there takes ssh's place.

The stand-in enters the namespace of the host named, and runs there what ssh was given.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.commands import crash_in, execute
from builders.networks import POSTMORTEM, Network, network, why_not
from builders.processes import until
from builders.schema import validate

_FOR_EVER = f"sleep 1000.{os.getpid()}"  # those of other tests are not ours
_SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$2; shift 2
case $host in
  dead) echo "ssh: connect to host dead port 22: Connection timed out" >&2; exit 255;;
  locked) echo "locked: Permission denied (publickey,password)." >&2; exit 255;;
  hung) exec FOR_EVER;;
  babbler) head -c 100000 /dev/urandom; exit 0;;
  greedy) { echo '{"schema": "postmortem/1", "x": ['; yes '[],' | head -c 60000000; echo '0]}'; };
    exit 0;;
  deep) head -c 1000000 /dev/zero | tr '\\0' '['; exit 0;;
  bare) exec sh -c 'exec no-such-program';;
esac
index=${host#h}
exec ip netns exec "$TAG"h"$index" unshare --uts --mount sh -c \
  "hostname $host; mount --bind $HOSTS /etc/hosts; $*"
""".replace("FOR_EVER", _FOR_EVER)


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Network]:
    if (why := why_not()) is not None:
        pytest.skip(why)
    with network(tmp_path, 3) as made:
        (tmp_path / "bin").mkdir()
        ssh = tmp_path / "bin" / "ssh"
        ssh.write_text(_SSH)
        ssh.chmod(0o755)
        rows = [f"{made.address(index)} h{index}\n" for index in range(3)]
        (tmp_path / "hosts").write_text("127.0.0.1 localhost\n" + "".join(rows))
        yield made


def start(net: Network, *words: str | Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PATH": f"{net.folder}/bin:{os.environ['PATH']}", "TAG": net.tag}
    env |= {"HOSTS": str(net.folder / "hosts")}
    for name in list(env):
        if name.startswith(("SLURM_", "MASTER_", "NCCL_", "GLOO_")):
            del env[name]
    remote = f"{sys.executable} -m postmortem"
    command = [*POSTMORTEM, "fleet", "--engine", "ssh", "--remote", remote, "--json"]
    return subprocess.Popen(
        [*command, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


def fleet(net: Network, code: int, *words: str | Path) -> dict[str, Any]:
    child = start(net, *words)
    out, err = child.communicate(timeout=100)
    assert child.returncode == code, (out[-2000:], err[-2000:])
    found: dict[str, Any] = json.loads(out)
    validate(found)
    return found


def test_doctor_on_nodes_of_which_some_do_not_answer(net: Network) -> None:
    began = time.monotonic()
    hosts = "h[0-2],dead,locked,hung,babbler,bare"
    found = fleet(net, 1, "-w", hosts, "--deadline", "10", "doctor")
    assert (found["nodes_asked"], found["nodes_answered"]) == (8, 3)
    why = {row["node"]: row["why"] for row in found["silent"]}
    assert why.keys() == {"dead", "locked", "hung", "babbler", "bare"}
    assert "Connection timed out" in why["dead"]
    assert "Permission denied" in why["locked"]
    assert why["hung"].endswith(" in time")
    assert "rubbish" in why["babbler"]
    assert "no postmortem" in why["bare"]
    assert sum(len(group["nodes"]) for group in found["groups"]) == 3
    assert time.monotonic() - began < 60


def test_answers_that_would_eat_memory(
    net: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTMORTEM_MEMORY", "500M")
    found = fleet(net, 0, "--exit-zero", "-w", "h0,greedy,deep", "doctor")
    why = {row["node"]: row["why"] for row in found["silent"]}
    assert why.keys() == {"greedy", "deep"}
    assert "memory" in why["greedy"]
    assert "rubbish" in why["deep"]


RANK = """
import os, sys, time
def waits():
    print("up", flush=True); time.sleep(600)
def reads():
    print("up", flush=True); open(sys.argv[1]).read()
waits() if os.environ["RANK"] != "5" else reads()
"""


def test_hang_names_the_rank_that_stands_elsewhere(net: Network, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for host in range(3):
        for local in range(4):
            env = {"RANK": str(host * 4 + local), "LOCAL_RANK": str(local), "WORLD_SIZE": "12"}
            words = [sys.executable, "-c", RANK, str(fifo), f"job-of-{net.tag}-{host}-"]
            child = net.spawn(host, words, env=env)
            assert child.stdout is not None
            assert child.stdout.readline() == "up\n"
    # All hosts are one kernel here: each has a job of its own name.
    script = net.folder / "bin" / "pm"
    script.write_text(
        f"#!/bin/sh\nexec {sys.executable} -m postmortem hang "
        f'--job "job-of-{net.tag}-$(hostname | tr -d h)-" --gap 0.3 --json\n'
    )
    script.chmod(0o755)
    found = fleet(net, 1, "-w", "h[0-2]", "--remote", script, "hang")
    assert found["nodes_answered"] == 3, found["silent"]
    odd = [one for one in found["diagnoses"] if one["id"] == "odd_ranks"]
    assert len(odd) == 1
    assert (odd[0]["about"]["rank"], odd[0]["about"]["host"]) == (5, "h1")
    assert sorted(one["processes"] for one in found["standing"]) == [1, 11]


def test_net_between_all_nodes(net: Network) -> None:
    words = ("-w", "h[0-2]", "net", "--no-torch", "--no-speed", "--timeout", "2")
    found = fleet(net, 0, *words)
    assert found["nodes_answered"] == 3
    assert found["diagnoses"] == []
    net.drop(1, 2)
    found = fleet(net, 1, *words)
    (pair,) = found["diagnoses"]
    assert (pair["id"], pair["confidence"]) == ("nodes_fail", "likely"), found["silent"]


@pytest.mark.cores
def test_collect_fetches_one_slim_core_of_each_crash(net: Network, tmp_path: Path) -> None:
    there, here = tmp_path / "cores", tmp_path / "here"
    here.mkdir()
    made = crash_in(there, [sys.executable, "-c", "import ctypes; ctypes.string_at(8)"])
    name = made.rename(there / "core.1")
    found = fleet(net, 1, "-w", "h[0-2]", "-d", here, "collect", there)
    assert len(found["crashes"]) == 1
    assert found["crashes"][0]["nodes"] == ["h0", "h1", "h2"]
    assert found["crashes"][0]["count"] == 3
    files = list(here.iterdir())
    assert [str(path) for path in files] == [found["kept"][0]["path"]]
    assert files[0].stat().st_size < name.stat().st_size
    read = [*POSTMORTEM, "core", str(files[0]), "--engine", "native", "--json"]
    done = subprocess.run(read, capture_output=True, text=True, timeout=100)
    assert json.loads(done.stdout)["signature"]["hash"] == found["crashes"][0]["hash"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_started_ends_with_us(net: Network, number: signal.Signals) -> None:
    child = start(net, "-w", "h0,hung", "--deadline", "500", "doctor")
    until(sleepers)
    child.send_signal(number)
    child.communicate(timeout=30)
    assert child.returncode == 130
    assert sleepers() == []


def sleepers() -> list[str]:
    """Return the stand-ins that wait for ever."""
    done = subprocess.run(["pgrep", "-f", f"^{_FOR_EVER}$"], capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["-w", "", "doctor"], 2),
        (["-w", "n[1", "doctor"], 3),
        (["-w=-oProxyCommand=x", "doctor"], 3),
        (["-w", "h0", "collect", "/cores"], 3),
        (["-w", "h0", "--remote", "", "doctor"], 2),
        (["doctor"], 2),
    ],
)
def test_what_cannot_begin(words: list[str], code: int) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    done = execute([*POSTMORTEM, "fleet", *words], env=env)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout
