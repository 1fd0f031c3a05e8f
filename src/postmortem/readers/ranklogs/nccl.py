"""What NCCL says of itself: version, network, who speaks to whom and how, warnings, trails."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from postmortem.facts.nccl import BadPeer, HostPair, Nccl, OwnAddress, Trail
from postmortem.facts.rank_logs import Remark

_NCCL = "NCCL"
_AFTER = ("nccl-ib-completion-flush", "nccl-abandoned", "nccl-socket-closed")
"""Consequences: a request that was flushed, an operation that was given up, a peer that left."""
_MOST_TRAILS = 4096
_MOST_STEPS = 64


def read_nccl(
    remarks: Sequence[Remark], links: Iterable[tuple[str, int, int, str, int, int]]
) -> Nccl | None:
    """Return what NCCL's lines say; None where there are none."""
    reading = _Reading()
    for remark in remarks:
        reading.take(remark)
    pairs = _pairs(links)
    if not (reading.any or pairs):
        return None
    return Nccl(
        versions=tuple(reading.versions),
        networks=tuple(
            (name, tuple(sorted(hosts))) for name, hosts in sorted(reading.networks.items())
        ),
        warnings=tuple(reading.warnings.items()),
        pairs=pairs,
        trails=tuple(Trail(*key, tuple(steps)) for key, steps in reading.trails.items()),
        peers=reading.bad_peers(),
        addresses=tuple(reading.addresses),
        ranks=tuple(sorted(reading.ranks.items())),
    )


class _Reading:
    """The lines so far."""

    def __init__(self) -> None:
        self.any = False
        self.versions: dict[str, None] = {}
        self.networks: dict[str, set[str]] = defaultdict(set)
        self.warnings: dict[str, int] = {}
        self.addresses: dict[OwnAddress, None] = {}
        self.trails: dict[tuple[str, int, int, str, int], list[str]] = {}
        self.ranks: dict[int, str] = {}
        """Hosts of ranks, from the lines that begin a communicator."""
        self._open: dict[tuple[str, str, str], tuple[str, int, int, str, int]] = {}
        self._peers: dict[str, list[tuple[int, str, Remark]]] = defaultdict(list)

    def take(self, remark: Remark) -> None:
        """Take one line."""
        line = remark.match("nccl-line")
        host = line["host"] if line else "?"
        version = remark.match("nccl-version")
        if version:
            self.any = True
            self.versions.setdefault(version["version"] + version["build"])
        network = remark.match("nccl-network")
        if network and _NCCL in remark.text:
            self.any = True
            self.networks[network["network"].strip()].add(host)
        own = remark.match("nccl-own-address") if line and line["level"] == "INFO" else None
        if own:
            self.addresses[OwnAddress(own["address"], own["interface"], host)] = None
        init = remark.match("nccl-init") if line else None
        if init:
            self.ranks.setdefault(int(init["rank"]), host)
        step = remark.match("nccl-trail")
        if step and line:
            thread = (host, line["pid"], line["tid"])
            words = f"{step['file']}:{step['line']}"
            self._step(thread, words, int(step["code"]), remark)
        warn = remark.match("nccl-warning")
        if warn:
            self.any = True
            said = f"{host}: {warn['text']}"[:300]
            self.warnings[said] = self.warnings.get(said, 0) + 1
            self._warned(host, remark)

    def _step(self, thread: tuple[str, str, str], words: str, code: int, remark: Remark) -> None:
        """One line of a trail: the innermost function first, each thread a trail of its own."""
        key = self._open.get(thread)
        if key is None or key[4] != code or len(self.trails[key]) >= _MOST_STEPS:
            if len(self.trails) >= _MOST_TRAILS:
                return
            self.any = True
            key = (thread[0], remark.writer, remark.line, remark.file, code)
            self._open[thread] = key
            self.trails[key] = []
        self.trails[key].append(words)

    def _warned(self, host: str, remark: Remark) -> None:
        found = remark.match("nccl-peer", "nccl-socket-closed")
        if found and not remark.match(*_AFTER):
            address = (found["address"] or found["peer"]).partition("<")[0].strip("[]")
            self._peers[address].append((remark.writer, host, remark))

    def bad_peers(self) -> tuple[BadPeer, ...]:
        """Return the addresses that warnings name, those of the most writers first."""
        made = []
        for address, rows in self._peers.items():
            writers = tuple(sorted({writer for writer, _, _ in rows}))
            hosts = tuple(sorted({host for _, host, _ in rows}))
            first = rows[0][2]
            made.append(BadPeer(address, writers, hosts, first.where, first.text[:300]))
        return tuple(sorted(made, key=lambda p: (-len(p.hosts), -len(p.writers), p.address)))


def _pairs(links: Iterable[tuple[str, int, int, str, int, int]]) -> tuple[HostPair, ...]:
    """Return how each two hosts speak; the host of a rank is that of its own lines."""
    rows = list(links)
    hosts: dict[int, Counter[str]] = defaultdict(Counter)
    for host, source, target, how, count, _ in rows:
        if "[receive]" in how:
            hosts[target][host] += count
        elif "NET/" not in how:
            hosts[source][host] += count
            hosts[target][host] += count
        else:
            hosts[source][host] += count
    of = {rank: seen.most_common(1)[0][0] for rank, seen in hosts.items()}
    pairs: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for host, source, target, how, count, line in rows:
        first, second = of.get(source, host), of.get(target, host)
        key = (first, second, _plain(how))
        pairs[key][0] += count
        pairs[key][1] = pairs[key][1] or line
    return tuple(
        HostPair(first, second, how, count, line)
        for (first, second, how), (count, line) in sorted(pairs.items())
    )


def _plain(how: str) -> str:
    """Return a transport without the number of its device: ``NET/IB/GDRDMA``."""
    parts = how.partition(" ")[0].split("/")
    return "/".join(part for part in parts if not part.isdecimal() and "(" not in part)
