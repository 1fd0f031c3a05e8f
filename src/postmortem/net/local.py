"""What this node says of itself before it talks to anybody."""

import importlib.util
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from postmortem.facts.net import Node
from postmortem.readers.network.choices import choices
from postmortem.readers.network.interfaces import read_fabrics, read_interfaces
from postmortem.readers.network.names import look_up


def this_node(number: int, master: str | None, env: Mapping[str, str] = os.environ) -> Node:
    """Return the facts of this node; look-ups of names take five seconds each at most."""
    host = socket.gethostname()
    interfaces = read_interfaces()
    own = look_up(host)
    return Node(
        number=number,
        host=host,
        pid=os.getpid(),
        interfaces=interfaces,
        own=own,
        master=look_up(master) if master is not None else None,
        choices=choices(env, interfaces, own),
        fabrics=read_fabrics(),
        torch=importlib.util.find_spec("torch") is not None,
        gpu=Path("/proc/driver/nvidia/version").exists(),
    )


def ways(node: Node) -> dict[str, str]:
    """Return the addresses that the libraries will take, by library."""
    return {one.library: one.address for one in node.choices if one.address is not None}


def common_ways(source: Node, target: Node) -> list[tuple[str, str, str]]:
    """Return `(way, our address, their address)`, equal ones once: ``gloo, NCCL``."""
    ours, theirs = ways(source), ways(target)
    found: dict[tuple[str, str], list[str]] = {}
    for library in ours.keys() & theirs.keys():
        found.setdefault((ours[library], theirs[library]), []).append(library)
    return [(", ".join(sorted(names, key=str.lower)), *pair) for pair, names in found.items()]


def alternatives(node: Node, but: str) -> list[tuple[str, str]]:
    """Return `(interface, address)` of a node's other ways to be reached."""
    return [
        (one.name, address)
        for one in node.interfaces
        if one.up and not one.loopback and not one.name.startswith(("docker", "virbr", "veth"))
        for address in one.addresses
        if address != but
    ]
