"""What NCCL's own lines say: versions, networks, transports, peers, ways back from errors."""

from __future__ import annotations

from postmortem.records import record


@record
class HostPair:
    """How two hosts speak: ``"P2P/IPC"``, ``"SHM"``, ``"NET/IB/GDRDMA"``, ``"NET/Socket"``."""

    first: str
    second: str
    how: str
    channels: int
    line: int


@record
class Trail:
    """The way back from an error of NCCL, the innermost function first."""

    host: str
    writer: int
    line: int
    file: str
    code: int
    """ncclResult_t: 2 is a system error, 3 an internal one, 6 a remote one."""
    steps: tuple[str, ...]


_OF_ONE_HOST = ("docker", "podman", "virbr", "br-", "veth", "cni", "flannel", "lxcbr", "lxdbr")
"""How the interfaces begin that lead to containers and virtual machines of the host itself."""


@record
class OwnAddress:
    """Where a host says that the others find it."""

    address: str
    interface: str
    host: str

    @property
    def leads_nowhere(self) -> bool:
        """Whether no other host can come there."""
        return self.interface == "lo" or self.interface.startswith(_OF_ONE_HOST)


@record
class BadPeer:
    """An address that warnings complain of."""

    address: str
    writers: tuple[int, ...]
    """Who complains, as indices into `RankLogs.writers`."""
    hosts: tuple[str, ...]
    where: str
    what: str


@record
class Nccl:
    """All of it."""

    versions: tuple[str, ...] = ()
    networks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(network, hosts that use it)."""
    warnings: tuple[tuple[str, int], ...] = ()
    """(words, how often), in the order in which they came."""
    pairs: tuple[HostPair, ...] = ()
    trails: tuple[Trail, ...] = ()
    peers: tuple[BadPeer, ...] = ()
    """The address of the most hosts first."""
    addresses: tuple[OwnAddress, ...] = ()
    ranks: tuple[tuple[int, str], ...] = ()
    """(rank, host), where NCCL's lines say so."""

    def host_at(self, address: str) -> str | None:
        """Return the host that has an address, if its own lines say so."""
        return next((one.host for one in self.addresses if one.address == address), None)

    def odd_hosts(self) -> tuple[tuple[str, str, str], ...]:
        """Return (host, its network, that of all others) where one or two differ from many."""
        hosts = {host: name for name, group in self.networks for host in group if host != "?"}
        counts: dict[str, int] = {}
        for name in hosts.values():
            counts[name] = counts.get(name, 0) + 1
        if len(hosts) < 3 or len(counts) < 2:
            return ()
        usual = max(counts, key=lambda name: counts[name])
        odd = [host for host, name in hosts.items() if name != usual]
        if 3 * len(odd) > len(hosts):
            return ()
        return tuple((host, hosts[host], usual) for host in sorted(odd))
