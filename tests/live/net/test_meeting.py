"""``postmortem net`` on all hosts: faults of names, interfaces and pairs, made for real."""

import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.forks import needs_torch
from builders.networks import POSTMORTEM, Network, document, ended
from builders.processes import until

Hosts = Callable[..., Network]
FAST = ("--timeout", "2", "--no-speed")


def ids(found: dict[str, Any]) -> list[str]:
    return [one["id"] for one in found["diagnoses"]]


def about(found: dict[str, Any]) -> dict[str, Any]:
    """Return whom and what the first diagnosis is about."""
    return {key: value for key, value in found["diagnoses"][0]["about"].items() if value}


def judged(net: Network, code: int, *options: str, **more: Any) -> dict[str, Any]:
    """Run a meeting to its end; return node 0's report, after all have ended with its status."""
    started = net.meet(*FAST, *options, **more)
    found = document(started[0], code)
    for index, child in started.items():
        if index:
            status, out, _ = ended(child)
            assert status == code
            assert out == ""  # node 0 has the report
    assert net.listening() == []
    return found


def test_all_is_well(hosts: Hosts) -> None:
    net = hosts(3)
    started = net.meet("--timeout", "2")
    found = document(started[0], 0)
    assert found["outcome"] == "healthy"
    assert found["probes"] == {"tried": 6, "failed": [], "second_try": []}
    assert found["rounds"] == 2
    assert {(one["source"], one["target"]) for one in found["speeds"]} == {(0, 1), (0, 2)}
    assert [one["name"] for one in found["stages"]] == ["meeting", "names", "pairs", "speed"]
    for index in (1, 2):
        assert ended(started[index])[0] == 0
    assert net.listening() == []


@pytest.mark.torch
@pytest.mark.slow
def test_an_all_reduce_is_the_last_stage(hosts: Hosts) -> None:
    needs_torch()
    net = hosts(2)
    started = net.meet("--timeout", "3", torch=True)
    found = document(started[0], 0, 110)
    assert [one["stage"] for one in found["collectives"]] == ["done", "done"]
    assert all(len(one["seconds"]) == 4 for one in found["collectives"])
    if not any(node["gpu"] for node in found["nodes"]):
        last = found["stages"][-1]
        assert (last["name"], last["outcome"]) == ("nccl", "skipped")
    ended(started[1])
    assert net.listening() == []


def test_the_host_name_is_127_0_1_1(hosts: Hosts) -> None:
    net = hosts(3)
    debian = "127.0.0.1 localhost\n127.0.1.1 h2\n"
    found = judged(net, 1, hosts={2: debian})
    assert ids(found) == ["own_name_is_loopback"]
    first = found["diagnoses"][0]
    assert about(found)["host"] == "h2"
    assert first["confidence"] == "certain"
    assert first["next_steps"][0].startswith("export GLOO_SOCKET_IFNAME=e0")


def test_an_interface_that_is_not_there(hosts: Hosts) -> None:
    net = hosts(3)
    found = judged(net, 1, env={1: {"NCCL_SOCKET_IFNAME": "eth7"}})
    assert ids(found) == ["interface_not_usable"]
    assert about(found) == {"host": "h1"}


def test_an_interface_that_is_down(hosts: Hosts) -> None:
    net = hosts(2)
    net.ip(1, "link add name spare type bridge", "addr add 10.99.0.1/24 dev spare")
    found = judged(net, 1, env={1: {"GLOO_SOCKET_IFNAME": "spare"}})
    assert ids(found) == ["interface_not_usable"]
    assert about(found) == {"host": "h1", "path": "spare"}


def test_the_wrong_interface(hosts: Hosts) -> None:
    net = hosts(3)
    net.ip(
        2,
        "link add name mgmt type veth peer name mgmt0",
        "addr add 10.99.0.1/24 dev mgmt",
        "link set dev mgmt up",
        "link set dev mgmt0 up",
    )
    found = judged(net, 1, env={2: {"NCCL_SOCKET_IFNAME": "mgmt"}})
    assert ids(found)[0] == "wrong_interface"
    assert about(found) == {"host": "h2", "path": "mgmt"}
    first = found["diagnoses"][0]
    assert "export NCCL_SOCKET_IFNAME=e0" in first["next_steps"]
    assert all(one["role"] == "cascade" for one in found["diagnoses"][1:])


def test_a_name_that_leads_elsewhere(hosts: Hosts) -> None:
    net = hosts(3)
    lie = f"127.0.0.1 localhost\n{net.address(2)} h2\n10.77.0.99 h0\n"
    found = judged(net, 1, hosts={2: lie})
    assert ids(found) == ["name_elsewhere"]
    assert about(found) == {"host": "h0", "path": "/etc/hosts:3"}
    (misnamed,) = found["misnamed"]
    assert misnamed["node"] == 2
    assert misnamed["lookup"]["addresses"] == ["10.77.0.99"]


def test_the_name_of_the_first_node_leads_to_oneself(hosts: Hosts) -> None:
    net = hosts(2)
    lie = f"127.0.0.1 localhost\n{net.address(1)} h1 h0\n"
    started = net.meet(*FAST, "--wait", "4", hosts={1: lie}, master="h0:29500")
    other = document(started[1], 1)
    assert ids(other)[0] == "name_elsewhere"
    assert about(other) == {"host": "h0", "path": "/etc/hosts:2"}
    assert ids(document(started[0], 1)) == ["node_missing"]


def test_the_first_node_cannot_be_reached(hosts: Hosts) -> None:
    net = hosts(3)
    net.drop(2, 0)
    started = net.meet(*FAST, "--wait", "5")
    other = document(started[2], 1)
    assert ids(other) == ["not_reached"]
    assert other["target"]["attempts"][0]["met"] == "dropped"
    found = document(started[0], 1)
    assert ids(found) == ["node_missing"]
    assert found["lost"] == [{"number": 2, "host": None, "when": "never came"}]
    assert ended(started[1])[0] == 1


def test_only_the_first_port_is_open(hosts: Hosts) -> None:
    net = hosts(3)
    net.ip("r", "rule add pref 10 ipproto tcp dport 29500 table main")
    net.ip("r", "rule add pref 11 ipproto tcp sport 29500 table main")
    net.ip("r", "rule add pref 12 ipproto tcp blackhole")
    found = judged(net, 1)
    assert ids(found) == ["pairs_fail"]
    assert {one["port"] for one in found["probes"]["failed"]} & {29500} == set()
    assert len(found["probes"]["failed"]) == found["probes"]["tried"]


def test_two_halves(hosts: Hosts) -> None:
    net = hosts(4)
    for first in (0, 1):
        for second in (2, 3):
            for pair in ((first, second), (second, first)):
                net.ip(
                    "r",
                    f"rule add pref 5 from {net.address(pair[0])} to {net.address(pair[1])} "
                    "ipproto tcp dport 29500 table main",
                    f"rule add pref 5 from {net.address(pair[0])} to {net.address(pair[1])} "
                    "ipproto tcp sport 29500 table main",
                    f"rule add pref 9 from {net.address(pair[0])} to {net.address(pair[1])} "
                    "ipproto tcp blackhole",
                )
    found = judged(net, 1)
    assert ids(found) == ["pairs_fail"]
    failed = {(one["source"], one["target"]) for one in found["probes"]["failed"]}
    assert failed == {(a, b) for a in range(4) for b in range(4) if a // 2 != b // 2}


def test_one_node_that_lets_nobody_in(hosts: Hosts) -> None:
    net = hosts(4)
    for index in range(4):
        low = 30_000 + 1000 * index
        net.sh(index, f"echo {low} {low + 999} > /proc/sys/net/ipv4/ip_local_port_range")
    # Its listening port is one of these, and those that it speaks from are too: what comes back
    # to them comes from ports of the others, below or above.
    net.ip(
        "r",
        "rule add pref 9 ipproto tcp sport 30000-31999 dport 32000-32999 blackhole",
        "rule add pref 9 ipproto tcp sport 33000-33999 dport 32000-32999 blackhole",
    )
    found = judged(net, 1)
    assert ids(found)[0] == "pairs_fail"
    assert about(found) == {"host": "h2"}


def test_full_packets_vanish_at_one_node(hosts: Hosts) -> None:
    net = hosts(4, bridged=True)
    for index in range(4):
        net.ip(index, "link set dev e0 gso_max_segs 1")
    net.ip("r", "link set dev v3 mtu 1300")
    # What node 3 says of itself is larger than that: it comes to the meeting in small segments.
    net.sh(3, f"ip route replace {net.address(0)} dev e0 advmss 1000")
    net.sh(0, f"ip route replace {net.address(3)} dev e0 advmss 1000")
    found = judged(net, 1)
    assert ids(found) == ["large_packets_vanish"]
    assert about(found) == {"host": "h3"}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("fault", "count"), [("node", 20), ("link", 16)])
def test_one_of_many(hosts: Hosts, fault: str, count: int) -> None:
    net = hosts(count)
    if fault == "node":
        net.ip(
            "r",
            f"rule add pref 5 from {net.address(19)} to {net.address(0)} table main",
            f"rule add pref 5 from {net.address(0)} to {net.address(19)} table main",
            f"rule add pref 9 from {net.address(19)} blackhole",
        )
    else:
        net.drop(5, 12)
        net.drop(12, 5)
    started = net.meet("--timeout", "3", "--no-speed", "--wait", "100")
    found = document(started[0], 1, 280)
    assert found["rounds"] == math.ceil(math.log2(count))
    assert ids(found) == ["pairs_fail"]
    if fault == "node":
        assert about(found) == {"host": "h19"}
        assert any("--exclude=h19" in step for step in found["diagnoses"][0]["next_steps"])
    else:
        assert found["probes"]["tried"] == count * (count - 1)
        failed = {(one["source"], one["target"]) for one in found["probes"]["failed"]}
        assert failed == {(5, 12), (12, 5)}
    for child in started.values():
        child.wait(60)
    assert net.listening() == []


def test_a_slow_node(hosts: Hosts) -> None:
    net = hosts(4)
    try:
        net.sh("r", "tc qdisc add dev v2 root tbf rate 16mbit burst 64k latency 2s")
    except Exception:
        pytest.skip("this kernel has no token bucket (sch_tbf)")
    started = net.meet("--timeout", "4")
    found = document(started[0], 1)
    assert ids(found) == ["slow_node"]
    slowest = min(found["speeds"], key=lambda one: one["bytes_per_second"])
    assert {slowest["source"], slowest["target"]} == {0, 2}


def test_another_token(hosts: Hosts) -> None:
    net = hosts(2)
    first = net.meet(*FAST, "--wait", "4", only=[0])[0]
    words = [*POSTMORTEM, "net", "--nodes", "2", "--node", "1", "--token", "other"]
    other = net.spawn(1, [*words, "--master", f"{net.address(0)}:29500"])
    status, out, err = ended(other)
    assert (status, out) == (3, "")
    assert "another token" in err
    assert len(err.splitlines()) == 1
    found = document(first, 1)
    assert ids(found) == ["node_missing"]
    assert found["problems"][0]["where"] == net.address(1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nodes", "3", "--node", "1"], "node 0 waits for 2 nodes"),
        (["--nodes", "2", "--node", "0"], None),
    ],
)
def test_nodes_that_do_not_fit(hosts: Hosts, options: list[str], words: str | None) -> None:
    net = hosts(2)
    first = net.meet(*FAST, "--wait", "4", only=[0])[0]
    more = ["--token", "secret", "--master", f"{net.address(0)}:29500", "--wait", "3", "--json"]
    other = net.spawn(1, [*POSTMORTEM, "net", *options, *more])
    status, _, err = ended(other)
    if words is not None:
        assert status == 3
        assert words in err
    ended(first)
    assert net.listening() == []


def test_two_first_nodes_on_one_host(hosts: Hosts) -> None:
    net = hosts(2)
    first = net.meet(*FAST, "--wait", "8", only=[0])[0]
    until(lambda: net.listening())
    second = document(net.meet(*FAST, "--wait", "8", only=[0])[0], 1)
    assert ids(second) == ["port_in_use"]
    holder = second["target"]["holder"]["pid"]  # the child that listens
    assert f"PPid:\t{first.pid}\n" in Path(f"/proc/{holder}/status").read_text()
    ended(first)


def test_a_node_that_dies_in_the_middle(hosts: Hosts) -> None:
    net = hosts(4)
    net.drop(1, 2)
    net.drop(2, 1)  # so that the first round takes some seconds
    started = net.meet("--timeout", "4", "--no-speed", "--wait", "60")
    until(lambda: net.sh(0, "ss -Htn state established 'sport = :29500'").count("\n") == 4)
    time.sleep(2)
    os.kill(started[3].pid, signal.SIGKILL)
    found = document(started[0], 1)
    assert "node_missing" in ids(found)
    assert [(one["number"], one["host"]) for one in found["lost"]] == [(3, "h3")]
    for index in (1, 2):
        assert ended(started[index])[0] == 1
    assert net.listening() == []


def test_the_first_node_dies_in_the_middle(hosts: Hosts) -> None:
    net = hosts(3)
    started = net.meet("--timeout", "4", "--no-speed", "--wait", "60", only=[0, 1])
    until(lambda: net.sh(0, "ss -Htn state established 'sport = :29500'").count("\n") == 2)
    os.kill(started[0].pid, signal.SIGKILL)
    found = document(started[1], 1)
    assert ids(found) == ["node_missing"]
    assert found["lost"][0]["number"] == 0
    assert net.listening() == []


RUBBISH = """
import socket, sys, time
c = socket.create_connection((sys.argv[1], 29500)); c.sendall(b"\\xff{]" * 9000 + b"\\n")
d = socket.create_connection((sys.argv[1], 29500)); d.sendall(b"[" * 5000 + b"\\n")
e = socket.create_connection((sys.argv[1], 29500))
f = [socket.create_connection((sys.argv[1], 29500)) for _ in range(40)]
time.sleep(20)
"""


def test_strangers_that_talk_rubbish(hosts: Hosts) -> None:
    net = hosts(3)
    first = net.meet(*FAST, only=[0])[0]
    until(lambda: net.listening())
    net.spawn(2, [sys.executable, "-c", RUBBISH, net.address(0)])
    until(lambda: net.sh(0, "ss -Htn state established 'sport = :29500'").count("\n") > 30)
    others = net.meet(*FAST, only=[1, 2])
    found = document(first, 0)
    assert found["outcome"] == "healthy"
    assert found["problems"][0]["where"] == net.address(2)
    for child in others.values():
        assert ended(child)[0] == 0
