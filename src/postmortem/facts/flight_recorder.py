"""PyTorch's flight recorder: the last collectives that each rank called."""

from __future__ import annotations

from postmortem.facts.threads import Frame
from postmortem.records import record


@record
class Collective:
    """One call of a collective, as its rank recorded it."""

    group: str
    """Name of the process group, equal on all ranks: ``"0"``."""
    group_words: str
    """What the program calls it: ``"default_pg"``."""
    sequence: int
    """Number of the call in its group; of a point-to-point call that of its own kind."""
    operation: str
    """``"all_reduce"``, without the backend's name."""
    backend: str
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    state: str
    """``"scheduled"``, ``"started"`` or ``"completed"``; gloo never goes beyond the first."""
    finished: bool
    is_p2p: bool
    frames: tuple[Frame, ...] = ()
    """Python frames of the call, innermost first."""

    @property
    def site(self) -> Frame | None:
        """Return the innermost frame outside of PyTorch's own wrappers."""
        return next((f for f in self.frames if "torch/distributed/" not in (f.file or "")), None)


@record
class Recorder:
    """The dump of one rank."""

    rank: int
    where: str
    version: str
    calls: tuple[Collective, ...]
    """In the order in which they were called; only the last ones, as many as the ring holds."""
    members: tuple[tuple[str, tuple[int, ...]], ...]
    """Ranks of each process group, where the dump tells."""

    def last(self, group: str) -> int | None:
        """Return the highest sequence number that this rank called in a group."""
        return max(
            (c.sequence for c in self.calls if c.group == group and not c.is_p2p), default=None
        )

    def numbered(self, group: str) -> dict[int, Collective]:
        """Return the collectives of a group by their numbers, the last of each number."""
        return {c.sequence: c for c in self.calls if c.group == group and not c.is_p2p}
