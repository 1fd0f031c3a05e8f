"""What a call means for who waits: whom it needs, and what must be equal on all ranks."""

from postmortem.facts.flight_recorder import Collective
from postmortem.patterns import Pattern

# Nobody ends one of these before all have begun it.
_SYMMETRIC = (
    "all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter", "all_to_all",
    "alltoall", "barrier",
)  # fmt: skip
# What each rank gives or takes is its own affair.
_OWN_SIZES = ("all_to_all", "alltoall", "allgatherv", "send", "recv")
_PAIR = Pattern(r"^(?P<how>send|recv) (?P<mine>\d{1,9})(?:->|<-)(?P<other>\d{1,9})$")


class Kind:
    """What follows from the shape of a call; made once for each shape."""

    __slots__ = ("done", "feature", "is_recv", "is_send", "p2p", "peer", "shape", "symmetric")

    def __init__(self, shape: Collective) -> None:
        plain = shape.operation.lower().strip("_")
        pair = _PAIR.match(shape.operation) if shape.is_p2p else None
        own = plain in ("gather", "scatter") or plain.startswith(_OWN_SIZES) or "coalesced" in plain
        self.shape = shape
        self.p2p = shape.is_p2p
        self.done = shape.finished
        self.is_send = shape.is_p2p and plain.startswith("send")
        self.is_recv = shape.is_p2p and plain.startswith("recv")
        self.peer = int(pair["other"]) if pair else None
        """Place of the other rank in the group."""
        self.symmetric = plain.startswith(_SYMMETRIC)
        sizes = () if own else (shape.input_sizes, shape.output_sizes)
        self.feature = (shape.operation, shape.dtypes, sizes)
        """What must be equal on all ranks of the group."""


class Group:
    """A process group, and how far each of its ranks has come in it."""

    __slots__ = ("completed", "enqueued", "listed", "members", "name", "pairs", "place", "words")

    def __init__(self, name: str, words: str, members: tuple[int, ...], *, listed: bool) -> None:
        self.name, self.words, self.members, self.listed = name, words, members, listed
        self.place = {rank: at for at, rank in enumerate(members)}
        self.enqueued: dict[int, int] = {}
        """Of each rank the last collective that it called."""
        self.completed: dict[int, int] = {}
        """Of each rank the last collective up to which all have ended for it."""
        self.pairs: dict[int, int] = {}
        """Of each rank the last send or receive that it called."""

    @property
    def kind(self) -> tuple[str, int]:
        """Return what groups that do the same for other ranks have in common."""
        return self.words, len(self.members)


class Call:
    """One call of a rank."""

    __slots__ = ("at", "created", "group", "kind", "number", "open", "peer", "rank")

    def __init__(
        self,
        rank: int,
        at: int,
        group: Group,
        kind: Kind,
        number: int,
        created: int,
        *,
        open_: bool,
    ) -> None:
        self.rank, self.at, self.group, self.kind = rank, at, group, kind
        self.number, self.created, self.open = number, created, open_
        peer = kind.peer
        self.peer = group.members[peer] if peer is not None and peer < len(group.members) else None

    @property
    def blocks(self) -> bool:
        """Return whether its rank may wait in it: a sender goes on."""
        return not self.kind.is_send

    @property
    def alike(self) -> tuple[object, ...]:
        """Return what the call of a mate has in common with it."""
        number = None if self.kind.p2p else self.number
        return self.group.words, self.kind.shape.operation, number
