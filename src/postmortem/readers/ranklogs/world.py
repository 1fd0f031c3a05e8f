"""How many ranks there are, from what the logs say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from postmortem.facts.rank_logs import Remark
from postmortem.patterns import Pattern

_LARGEST = 10_000_000
# torchelastic's launch configuration, NCCL's "nranks", c10d's "3/4 clients joined" and the usual
# words of training programs.
_SIZES = (
    Pattern(r"(?i)\bworld[ _]size['\"]?\s*[:=]\s*(\d+)"),
    Pattern(r"\bdist_world_size=(\d+)"),  # DeepSpeed's launcher
    Pattern(r"\bnranks (\d+)\b"),
    Pattern(r"\b\d+/(\d+) clients joined"),
    Pattern(r"distributed_backend=\w+.*?\b\d+/(\d+) processes"),
    Pattern(r"\(worker_count=\d+, .*?world_size=(\d+)"),
    Pattern(r"MEMBER: \d+/(\d+)\b"),
)
_NODES = Pattern(r"\bmax_nodes\s*:\s*(\d+)")
_PER_NODE = Pattern(r"\bnproc_per_node\s*:\s*(\d+)")
_WORDS = ("world", "WORLD", "World", "nranks", "clients joined", "MEMBER", "nproc_per", "max_nodes")


def world_size(
    told: int | None, remarks: Iterable[Remark], folders: int | None
) -> tuple[int | None, str | None]:
    """Return the number of ranks and what says so."""
    if told is not None:
        return told, "--world-size"
    sizes: Counter[int] = Counter()
    where: dict[int, str] = {}
    nodes = per_node = None
    for remark in remarks:
        if not any(word in remark.text for word in _WORDS):
            continue
        for pattern in _SIZES:
            found = pattern.search(remark.text)
            if found and 0 < int(found[1][:9]) <= _LARGEST:
                size = int(found[1][:9])
                sizes[size] += 1
                where.setdefault(size, f"{remark.file}:{remark.line}")
        node, per = _NODES.search(remark.text), _PER_NODE.search(remark.text)
        nodes = int(node[1][:9]) if node else nodes
        per_node = int(per[1][:9]) if per else per_node
    if nodes and per_node and nodes * per_node <= _LARGEST:
        return nodes * per_node, "the launcher's configuration"
    if sizes:
        largest = max(sizes)  # communicators of fewer ranks have a size of their own
        return largest, where[largest]
    return (folders, "the folders of torchrun") if folders else (None, None)
