"""How many ranks there are, from what the logs say."""

from collections import Counter
from collections.abc import Iterable

from postmortem.facts.rank_logs import Remark
from postmortem.facts.signature import Hit
from postmortem.patterns import Pattern
from postmortem.readers.signatures import Signatures
from postmortem.records import record

_RANK_OF, _RANK_PID, _OWN_PID = "run-rank-of", "run-rank-pid", "run-own-pid"
_OF_ANOTHER = Pattern(
    r"(?i)\b(?:launch|spawn|fork|child|worker|parent|los[et]|agent|server|kill|exit|sub-?process|send)"
)
_FIRST_LINES = 5
_LARGEST = 10_000_000
_SIZES = (
    "world-size", "world-size-deepspeed", "world-size-nccl", "store-clients-joined",
    "run-ended", "world-size-processes", "world-size-store", "world-size-member",
    "world-size-plain",
)  # fmt: skip


@record
class Head:
    """Which of how many ranks programs say that they are, in the first lines of a log."""

    rank: int | None = None
    """Where one alone says so."""
    size: int | None = None
    pids: tuple[tuple[int | None, int, int], ...] = ()
    """A rank, None for that of the file, the process that it says it is, and the line."""


def in_head(head: bytes) -> Head:
    """Return what the first lines of a log say; nothing where they disagree."""
    found = Signatures.load("run sign").find(head)
    said = [hit for hit in found if hit.id == _RANK_PID]
    own = [(int(h.groups["rank"]), int(h.groups["pid"]), h.line_number) for h in said]
    pids = (*own,) or _own_pids(found)
    hits = [hit.groups for hit in found if hit.id == _RANK_OF]
    sizes, ranks = {int(hit["size"]) for hit in hits}, {int(hit["rank"]) for hit in hits}
    if len(sizes) != 1 or max(ranks) >= max(sizes):
        return Head(pids=pids)
    return Head(min(ranks) if len(ranks) == 1 else None, max(sizes), pids)


def _own_pids(found: tuple[Hit, ...]) -> tuple[tuple[int | None, int, int], ...]:
    ranks = {hit.line_number: int(hit.groups["rank"]) for hit in found if hit.id == _RANK_OF}
    own = [h for h in found if h.id == _OWN_PID and not _OF_ANOTHER.search(h.text)]
    named = [h for h in own if h.line_number in ranks]
    first = [h for h in own if h.line_number <= _FIRST_LINES]
    told = named or (first if len(first) == 1 else [])
    return tuple((ranks.get(h.line_number), int(h.groups["pid"]), h.line_number) for h in told)


def world_size(
    told: int | None,
    remarks: Iterable[Remark],
    folders: int | None,
    heads: Iterable[int | None] = (),
) -> tuple[int | None, str | None]:
    """Return the number of ranks and what says so; `heads` is what the heads of logs say."""
    if told is not None:
        return told, "--world-size"
    sizes: Counter[int] = Counter()
    where: dict[int, str] = {}
    nodes = per_node = None
    for remark in remarks:
        for match in remark.matches:
            size = int((match["size"] or match["wanted"] or "0")[:9])
            if match.id in _SIZES and 0 < size <= _LARGEST:
                sizes[size] += 1
                where.setdefault(size, remark.where)
        node, per = remark.match("world-nodes"), remark.match("world-per-node")
        nodes = int(node["count"][:9]) if node else nodes
        per_node = int(per["count"][:9]) if per else per_node
    if nodes and per_node and nodes * per_node <= _LARGEST:
        return nodes * per_node, "the launcher's configuration"
    if sizes:
        largest = max(sizes)  # communicators of fewer ranks have a size of their own
        return largest, where[largest]
    said = {size for size in heads if size}
    if len(said) == 1:
        return next(iter(said)), "the heads of the logs"
    return (folders, "the folders of torchrun") if folders else (None, None)
