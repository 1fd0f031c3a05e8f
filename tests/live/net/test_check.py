"""``postmortem net check HOST:PORT``: each way in which a port is not reached, made for real."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.commands import execute
from builders.networks import POSTMORTEM, Network, document, ended

Hosts = Callable[..., Network]
LISTEN = (
    "import socket, sys, time; s = socket.create_server((sys.argv[1], int(sys.argv[2]))); "
    "print('up', flush=True); s.settimeout(60); c = s.accept()[0]; "
    "c.sendall(sys.argv[3].encode()); time.sleep(60)"
)


def check(net: Network, index: int, place: str, *options: str, hosts: str = "") -> Any:
    words = [*POSTMORTEM, "net", "check", place, "--json", "--timeout", "2", *options]
    return net.spawn(index, words, hosts=hosts)


def ids(found: dict[str, Any]) -> list[str]:
    return [one["id"] for one in found["diagnoses"]]


def test_both_ends_that_work(hosts: Hosts) -> None:
    net = hosts(2)
    there = check(net, 1, f"{net.address(1)}:6000", "--wait", "60")
    here = document(check(net, 0, f"{net.address(1)}:6000", "--wait", "60"), 0)
    assert here["outcome"] == "healthy"
    assert here["target"]["back"] == "ok"
    assert here["target"]["attempts"][0]["met"] == "ok"
    assert document(there, 0)["outcome"] == "healthy"
    assert net.listening() == []


def test_nobody_listens(hosts: Hosts) -> None:
    net = hosts(2)
    found = document(check(net, 0, f"{net.address(1)}:6000", "--wait", "1"), 1)
    assert ids(found) == ["not_reached"]
    assert found["target"]["attempts"][0]["met"] == "refused"
    assert found["diagnoses"][0]["confidence"] == "certain"


def test_a_firewall_that_drops(hosts: Hosts) -> None:
    net = hosts(2)
    net.drop(0, 1, "6000")
    found = document(check(net, 0, f"{net.address(1)}:6000"), 1)
    assert ids(found) == ["not_reached"]
    assert found["target"]["attempts"][0]["met"] == "dropped"
    assert any("tcpdump" in step for step in found["diagnoses"][0]["next_steps"])


@pytest.mark.parametrize("kind", ["unreachable", "prohibit"])
def test_a_router_that_rejects(hosts: Hosts, kind: str) -> None:
    net = hosts(2)
    net.ip("r", f"rule add from {net.address(0)} to {net.address(1)} {kind}")
    found = document(check(net, 0, f"{net.address(1)}:6000"), 1)
    assert ids(found) == ["not_reached"]
    assert found["target"]["attempts"][0]["met"] == "unreachable"


def test_no_route(hosts: Hosts) -> None:
    net = hosts(2)
    net.ip(0, "route del default")
    found = document(check(net, 0, f"{net.address(1)}:6000"), 1)
    assert found["target"]["attempts"][0]["met"] == "unreachable"
    assert found["target"]["attempts"][0]["source"] is None


def test_a_port_in_use_and_by_whom(hosts: Hosts) -> None:
    net = hosts(1)
    other = net.spawn(0, [sys.executable, "-c", LISTEN, net.address(0), "6000", ""])
    assert other.stdout is not None
    assert other.stdout.readline() == "up\n"
    found = document(check(net, 0, f"{net.address(0)}:6000"), 1)
    assert ids(found) == ["port_in_use"]
    assert found["target"]["holder"]["pid"] == other.pid
    assert "create_server" in found["target"]["holder"]["command"]


def test_two_checks_at_once_on_one_host(hosts: Hosts) -> None:
    net = hosts(2)
    first = check(net, 1, f"{net.address(1)}:6000", "--wait", "60")
    assert document(check(net, 0, f"{net.address(1)}:6000", "--wait", "60"), 0)
    assert document(first, 0)
    first = check(net, 1, f"{net.address(1)}:6001", "--wait", "25")
    for _ in range(100):
        if net.listening():
            break
    second = document(check(net, 1, f"{net.address(1)}:6001"), 1)
    holder = Path(f"/proc/{second['target']['holder']['pid']}/status").read_text()
    assert f"PPid:\t{first.pid}\n" in holder  # who hears other hosts is its child
    assert document(first, 0)["outcome"] == "unknown"  # nobody came


@pytest.mark.parametrize("banner", ["SSH-2.0-OpenSSH_9.2\r\n", "", "\x00\xff{\n" * 3, "x" * 70_000])
def test_somebody_else_listens(hosts: Hosts, banner: str) -> None:
    net = hosts(2)
    banner = banner.replace("\x00", "?")
    other = net.spawn(1, [sys.executable, "-c", LISTEN, net.address(1), "6000", banner])
    assert other.stdout is not None
    assert other.stdout.readline() == "up\n"
    found = document(check(net, 0, f"{net.address(1)}:6000"), 0)
    assert found["outcome"] == "healthy"
    assert found["target"]["attempts"][0]["met"] == ("foreign" if banner else "silent")


def test_one_direction(hosts: Hosts) -> None:
    net = hosts(2)
    net.sh(0, "echo 40000 49999 > /proc/sys/net/ipv4/ip_local_port_range")
    net.sh(1, "echo 50000 59999 > /proc/sys/net/ipv4/ip_local_port_range")
    net.drop(1, 0, "40000-49999")
    net.ip(
        "r",
        f"rule add pref 1 from {net.address(1)} to {net.address(0)} "
        "ipproto tcp sport 6000 table main",
    )
    there = check(net, 1, f"{net.address(1)}:6000", "--wait", "60")
    found = document(check(net, 0, f"{net.address(1)}:6000", "--wait", "60"), 1)
    assert ids(found) == ["one_direction"]
    assert found["target"]["back"] == "dropped"
    ended(there)


@pytest.mark.parametrize("end", [0, 1])
def test_full_packets_vanish(hosts: Hosts, end: int) -> None:
    net = hosts(2, bridged=True)
    for index in (0, 1):
        net.ip(index, "link set dev e0 gso_max_segs 1")
    net.ip("r", f"link set dev v{end} mtu 1200")
    # Who listens gives up before who asks: that must not look like a connection that was closed.
    there = check(net, 1, f"{net.address(1)}:6000", "--wait", "60", "--timeout", "1")
    found = document(check(net, 0, f"{net.address(1)}:6000", "--wait", "60"), 1)
    assert ids(found) == ["large_packets_vanish"]
    assert found["target"]["attempts"][0]["met"] == "large_out"  # a port's MTU is for both ways
    assert 1180 <= found["target"]["largest"] <= 1200
    assert found["diagnoses"][0]["confidence"] == "certain"
    there.kill()


def test_a_name_that_nobody_knows(hosts: Hosts) -> None:
    net = hosts(1)
    found = document(check(net, 0, "nowhere.invalid:6000"), 1)
    assert ids(found) == ["name_unresolved"]


def test_a_name_that_lies(hosts: Hosts) -> None:
    net = hosts(2)
    lie = f"127.0.0.1 localhost\n{net.address(0)} h0\n\n10.77.0.77 h1 # of last year\n"
    found = document(check(net, 0, "h1:6000", hosts=lie), 1)
    assert ids(found) == ["not_reached"]
    lookup = found["target"]["lookup"]
    assert (lookup["source"], lookup["addresses"]) == ("/etc/hosts:4", ["10.77.0.77"])


@pytest.mark.parametrize("place", ["h1", "h1:", "h1:port", "h1:70000", ":6000", "-x:1", "a b:1"])
def test_places_that_are_none(place: str) -> None:
    done = execute([*POSTMORTEM, "net", "check", "--", place])
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout


def test_json_goes_to_standard_output_alone(hosts: Hosts) -> None:
    net = hosts(1)
    status, out, err = ended(check(net, 0, f"{net.address(0)}:6000", "--wait", "0.5"))
    assert (status, err) == (0, "")
    assert json.loads(out)["kind"] == "net"
