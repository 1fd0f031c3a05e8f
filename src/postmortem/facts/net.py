"""What nodes saw of each other: names, interfaces, ports, pairs, speeds, collectives."""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Literal

from postmortem.records import record


class Met(StrEnum):
    """How an attempt to talk to an address ended."""

    OK = "ok"
    REFUSED = "refused"
    """The host answers, and nobody listens."""
    DROPPED = "dropped"
    """No answer at all within the time."""
    UNREACHABLE = "unreachable"
    """A router, the neighbour table or our own kernel says that there is no way."""
    NO_SOURCE = "no_source"
    """The address that we should speak from is not ours, or its interface is down."""
    RESET = "reset"
    """The connection was made, and ended at once."""
    SILENT = "silent"
    """The connection was made, and nothing came through it."""
    FOREIGN = "foreign"
    """Somebody else answered: another program, another job, another node."""
    LARGE_OUT = "large_out"
    """Small packets pass, full ones vanish on the way there."""
    LARGE_IN = "large_in"
    """The same, on the way back."""


LARGE = (Met.LARGE_OUT, Met.LARGE_IN)


@record
class Interface:
    """One network interface of a node."""

    name: str
    up: bool
    loopback: bool
    mtu: int
    addresses: tuple[str, ...] = ()
    speed_mbit: int | None = None


@record
class Lookup:
    """What a name is on one node."""

    name: str
    addresses: tuple[str, ...] = ()
    source: str | None = None
    """``/etc/hosts:4`` where that file says so; None: whoever else the resolver asks."""
    error: str | None = None
    seconds: float = 0.0


@record
class Choice:
    """Which interface and address a library will take, and by what."""

    library: str
    """``gloo`` or ``NCCL``."""
    variable: str
    value: str | None
    interface: str | None = None
    address: str | None = None
    fault: str | None = None
    """``absent``, ``down``, ``no_address``, ``loopback``, ``unresolved``; None: it can be used."""


@record
class Fabric:
    """One port of an InfiniBand or RoCE device, as sysfs has it."""

    device: str
    port: int
    state: str
    link_layer: str
    rate: str = ""


@record
class Node:
    """What one node says of itself."""

    number: int
    host: str
    pid: int
    interfaces: tuple[Interface, ...]
    own: Lookup
    master: Lookup | None
    choices: tuple[Choice, ...]
    fabrics: tuple[Fabric, ...] = ()
    port: int = 0
    """Where it listens for probes."""
    torch: bool = False
    """PyTorch is installed."""
    gpu: bool = False
    """NVIDIA's driver is loaded."""

    @property
    def label(self) -> str:
        """``node 3 (gpu-17)``."""
        return f"node {self.number} ({self.host})"

    @property
    def broken(self) -> Choice | None:
        """The first choice that cannot work with anybody else."""
        return next((one for one in self.choices if one.fault is not None), None)


@record
class Probe:
    """One try to talk, from one node to another."""

    source: int
    target: int
    way: str
    """Whose addresses these are: ``gloo``, ``NCCL`` or ``gloo, NCCL``."""
    met: Met
    from_address: str
    to_address: str
    port: int
    detail: str = ""
    """What the system said (strerror(3)), or the other end."""
    seconds: float = 0.0
    """Until the connection was made."""
    round_trip: float | None = None
    alternative: str | None = None
    """``eth1 10.1.0.7``: another interface of the target, through which it works."""
    largest: int | None = None
    """The largest packet, in bytes, that passed, where larger ones vanish."""
    first_try: Met | None = None
    """How the first try ended, where this is the second."""


@record
class Speed:
    """What one connection carried while each node was busy with one other."""

    source: int
    target: int
    bytes_per_second: float
    round_trip: float


class StageName(StrEnum):
    """What is tried, in this order."""

    MEETING = "meeting"
    NAMES = "names"
    PAIRS = "pairs"
    SPEED = "speed"
    GLOO = "gloo"
    NCCL = "nccl"


@record
class Stage:
    """One stage of the check: when it was over, and how."""

    name: StageName
    outcome: Literal["ok", "failed", "skipped"]
    seconds: float
    count: int = 0
    """Nodes that came, tries, speeds that were measured, nodes of an all-reduce."""
    rounds: int = 0
    failed: int = 0
    lacking: tuple[str, ...] = ()
    """Nodes that lack what it needs: PyTorch, or a driver of NVIDIA."""


@record
class Holder:
    """The process that has a port."""

    address: str
    pid: int | None
    command: str
    user: str = ""


@record
class Attempt:
    """One try to reach an address of the target."""

    address: str
    source: str | None
    """Our address on the way there."""
    interface: str | None
    met: Met
    detail: str = ""
    """What the system said (strerror(3)), or the other end."""
    seconds: float = 0.0
    tries: int = 1


@record
class Target:
    """A host and port that were to be reached, or listened at."""

    host: str
    port: int
    lookup: Lookup
    ours: bool
    """Whether the address is one of this node's own."""
    attempts: tuple[Attempt, ...] = ()
    holder: Holder | None = None
    greeting: str | None = None
    """What the other end said first, where that was not this program."""
    back: Met | None = None
    """How a connection from there to here ended."""
    listened: float | None = None
    """Seconds that we listened there ourselves, and nobody came."""
    master: bool = False
    """It is the place where the nodes were to meet."""
    largest: int | None = None

    @property
    def place(self) -> str:
        """``node1:29500``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Parting(Enum):
    """How a node was lost."""

    NEVER_CAME = auto()
    SILENT = auto()
    LEFT = auto()
    REFUSED = auto()
    """What it said cannot be taken."""


@record
class Lost:
    """A node that did not come, or left before the end."""

    number: int
    host: str | None
    how: Parting
    stage: StageName
    said: str | None = None
    """Of what cannot be taken: what it did."""


@record
class Collective:
    """One node's part in an all-reduce of PyTorch."""

    node: int
    backend: str
    stage: str
    """The last stage that it was in: ``import``, ``store``, ``group``, ``all_reduce``, ``done``."""
    seconds: tuple[float, ...] = ()
    """Of the stages, in their order."""
    error: str | None = None


@record
class Misnamed:
    """A node that takes another's name for addresses which that one does not have."""

    node: int
    other: int
    lookup: Lookup


@record
class NetCheck:
    """All that was seen in one check."""

    world: int
    nodes: tuple[Node, ...]
    probes: tuple[Probe, ...] = ()
    rounds: int = 0
    speeds: tuple[Speed, ...] = ()
    collectives: tuple[Collective, ...] = ()
    lost: tuple[Lost, ...] = ()
    stages: tuple[Stage, ...] = ()
    target: Target | None = None
    misnamed: tuple[Misnamed, ...] = ()

    def node(self, number: int) -> Node | None:
        """Return the node of a number, if it came."""
        return next((one for one in self.nodes if one.number == number), None)

    def label(self, number: int) -> str:
        """Return ``node 3 (gpu-17)``."""
        found = self.node(number)
        return found.label if found is not None else f"node {number}"
