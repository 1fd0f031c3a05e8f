"""What the report says of NCCL: version, networks, who speaks to whom and how, its warnings."""

from postmortem.facts.nccl import HostPair, Nccl, Trail
from postmortem.facts.rank_logs import RankLogs
from postmortem.report.contract import fill
from postmortem.report.contract import logs as shapes
from postmortem.text import counted, some

_MOST_WARNINGS = 5
_HOSTS_SHOWN = 6
_MOST_ROWS = 2000
_STEPS_SHOWN = 6
# ncclResult_t (src/nccl.h.in)
_CODES = {
    1: "unhandled CUDA error",
    2: "system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote error",
    7: "in progress",
}


def network_rows(nccl: Nccl | None) -> list[tuple[str, str]]:
    """Return (what, value) rows, the plainest facts first."""
    if nccl is None:
        return []
    rows = [("NCCL", ", ".join(nccl.versions))] if nccl.versions else []
    for name, hosts in nccl.networks:
        rows.append(("network", f"{name} on {some(hosts, _HOSTS_SHOWN)}"))
    rows += _transports(nccl)
    for text, count in nccl.warnings[:_MOST_WARNINGS]:
        rows.append(("NCCL WARN", text if count == 1 else f"{text} ({count} times)"))
    if nccl.trails:
        rows.append(("NCCL trail", _trail(nccl.trails[0])))
    return rows


def _transports(nccl: Nccl) -> list[tuple[str, str]]:
    """Return one row for each transport: within hosts, and between which."""
    within: dict[str, set[str]] = {}
    between: dict[str, list[HostPair]] = {}
    for pair in nccl.pairs:
        if pair.first == pair.second:
            within.setdefault(pair.how, set()).add(pair.first)
        else:
            between.setdefault(pair.how, []).append(pair)
    rows = [
        ("transport", f"{how} within {some(sorted(hosts), _HOSTS_SHOWN)}")
        for how, hosts in sorted(within.items())
    ]
    for how, pairs in sorted(between.items(), key=lambda item: len(item[1])):
        names = [f"{pair.first} -> {pair.second}" for pair in pairs]
        more = "" if len(names) <= 2 else f" and {counted(len(names) - 2, 'more pair')} of hosts"
        rows.append(("transport", f"{how} between {', '.join(names[:2])}{more}"))
    return rows


def _trail(trail: Trail) -> str:
    code = f"{trail.code} ({_CODES[trail.code]})" if trail.code in _CODES else str(trail.code)
    steps = " <- ".join(trail.steps[:_STEPS_SHOWN])
    more = " <- …" if len(trail.steps) > _STEPS_SHOWN else ""
    return f"{trail.host}: result {code} from {steps}{more}"


def nccl_body(logs: RankLogs) -> dict[str, object] | None:
    """Return the JSON object; None where NCCL wrote nothing."""
    nccl = logs.nccl
    if nccl is None:
        return None
    return fill(
        shapes.Nccl,
        nccl,
        networks=[{"network": name, "hosts": list(hosts)} for name, hosts in nccl.networks],
        transports=[
            fill(shapes.Transport, pair, from_=pair.first, to=pair.second, transport=pair.how)
            for pair in nccl.pairs[:_MOST_ROWS]
        ],
        trails=[
            fill(shapes.Trail, trail, label=logs.who(trail.writer).label, result=trail.code)
            for trail in nccl.trails[:_MOST_ROWS]
        ],
        peers=[
            fill(shapes.Peer, peer, named_by=[logs.who(writer).label for writer in peer.writers])
            for peer in nccl.peers[:_MOST_ROWS]
        ],
    )
