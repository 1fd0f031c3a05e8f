"""Kind ``net``: what nodes saw of each other."""

from __future__ import annotations

from typing import Literal

from postmortem.facts.net import Met
from postmortem.report.contract import Shape


class Interface(Shape):
    name: str
    up: bool
    loopback: bool
    mtu: int
    addresses: list[str]
    speed_mbit: int | None


class Lookup(Shape):
    name: str
    addresses: list[str]
    source: str | None
    """`/etc/hosts:4` where that file says so; null: whoever else the resolver asks"""
    error: str | None
    seconds: float


class Choice(Shape):
    library: str
    """`gloo` or `NCCL`"""
    variable: str
    value: str | None
    interface: str | None
    address: str | None
    fault: str | None
    """`absent`, `down`, `no_address`, `loopback`, `unresolved`; null: it can be used"""


class Fabric(Shape):
    device: str
    port: int
    state: str
    link_layer: str
    rate: str


class Node(Shape):
    number: int
    host: str
    pid: int
    interfaces: list[Interface]
    own: Lookup
    """its own name"""
    master: Lookup | None
    choices: list[Choice]
    """which interface and address a library will take, and by what"""
    fabrics: list[Fabric]
    """ports of InfiniBand and RoCE devices, as sysfs has them"""
    port: int
    """where it listened for probes"""
    torch: bool
    gpu: bool
    """NVIDIA's driver is loaded"""


class Stage(Shape):
    name: str
    outcome: Literal["ok", "failed", "skipped"]
    seconds: float
    detail: str


class Probe(Shape):
    source: int
    target: int
    way: str
    """whose addresses these are: `gloo`, `NCCL` or `gloo, NCCL`"""
    met: Met
    from_address: str
    to_address: str
    port: int
    detail: str
    seconds: float
    """until the connection was made"""
    round_trip: float | None
    alternative: str | None
    """`eth1 10.1.0.7`: another interface of the target, through which it works"""
    largest: int | None
    """bytes of the largest packet that passed, where larger ones vanish"""
    first_try: Met | None
    """how the first try ended, where this is the second"""


class Probes(Shape):
    tried: int
    failed: list[Probe]
    second_try: list[Probe]
    """worked, after the first had failed"""


class Speed(Shape):
    source: int
    target: int
    bytes_per_second: float
    round_trip: float


class Collective(Shape):
    node: int
    backend: str
    stage: str
    """the last one that it was in: `import`, `store`, `group`, `all_reduce`, `done`"""
    seconds: list[float]
    """of the stages, in their order"""
    error: str | None


class Lost(Shape):
    number: int
    host: str | None
    when: str
    """`never came`, or the stage in which it left"""


class Misnamed(Shape):
    node: int
    other: int
    lookup: Lookup


class Attempt(Shape):
    address: str
    source: str | None
    """our address on the way there"""
    interface: str | None
    met: Met
    detail: str
    seconds: float
    tries: int


class Holder(Shape):
    address: str
    pid: int | None
    command: str
    user: str


class Target(Shape):
    host: str
    port: int
    lookup: Lookup
    ours: bool
    """the address is one of this node's own"""
    attempts: list[Attempt]
    holder: Holder | None
    """the process that has the port"""
    greeting: str | None
    """what the other end said first, where that was not this program"""
    back: Met | None
    """how a connection from there to here ended"""
    listened: float | None
    """seconds that we listened there ourselves, and nobody came"""
    master: bool
    """it is the place where the nodes were to meet"""
    largest: int | None


class Net(Shape):
    world_size: int
    nodes: list[Node]
    stages: list[Stage]
    rounds: int
    """of probes: pairs of one round do not disturb each other"""
    probes: Probes
    speeds: list[Speed]
    collectives: list[Collective]
    """each node's part in an all-reduce of PyTorch"""
    lost: list[Lost]
    """nodes that did not come, or left before the end"""
    misnamed: list[Misnamed]
    """nodes that take another's name for addresses which that one does not have"""
    target: Target | None
    """the host and port that were to be reached, or listened at"""
