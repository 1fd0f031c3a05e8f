"""What NCCL says of itself: version, network, transports, and the warnings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from postmortem.facts.rank_logs import Remark
from postmortem.patterns import Pattern

# host:pid:tid [device] NCCL INFO text (src/debug.cc)
_LINE = Pattern(
    r"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[\d+\] NCCL (?P<level>WARN|INFO) (?P<text>.*)"
)
_VERSION = Pattern(r"NCCL version (?P<version>\d+\.\d+\.\d+\S*)")
_NETWORK = Pattern(r"Using network (?P<network>[\w/ .-]+)")
_WARN = Pattern(r"NCCL WARN (?P<text>.*)")
_MOST_WARNINGS = 5


def network_facts(remarks: Iterable[Remark]) -> tuple[tuple[str, str], ...]:
    """Return (what, value) rows: version, network by host where hosts differ, first warnings."""
    versions: dict[str, None] = {}
    networks: dict[str, set[str]] = defaultdict(set)
    warnings: dict[str, int] = {}
    for remark in remarks:
        if "NCCL" not in remark.text:
            continue
        line = _LINE.search(remark.text)
        host = line["host"] if line else "?"
        version = _VERSION.search(remark.text)
        if version:
            versions.setdefault(version["version"])
        network = _NETWORK.search(remark.text)
        if network:
            networks[network["network"].strip()].add(host)
        warn = _WARN.search(remark.text)
        if warn:
            words = f"{host}: {warn['text']}"[:300]
            warnings[words] = warnings.get(words, 0) + 1
    rows = [("NCCL", ", ".join(versions))] if versions else []
    for name, hosts in sorted(networks.items()):
        rows.append(("network", f"{name} on {', '.join(sorted(hosts)[:6])}"))
    shown = list(warnings.items())[:_MOST_WARNINGS]
    rows += [
        ("NCCL WARN", text if count == 1 else f"{text} ({count} times)") for text, count in shown
    ]
    return tuple(rows)
