"""Ranks that stop together: no rank raises alone while the others wait for it in a collective.

After each forward pass of training all ranks reduce one number to its least: frame (of this batch)
and rank of what went bad first, or the largest there is. Only where something did, they also
exchange what it was. Passes without gradients take no part: often one rank alone evaluates.
Ranks that join (uneven inputs) do not call the model equally often, and those that are through
shadow the collectives of DDP alone: there each rank stops by itself.
"""

import logging
from typing import Any

import torch

from postmortem.diagnose.numerics.first_bad import FirstBad, Origin

log = logging.getLogger("postmortem.monitor")
_NOTHING = (1 << 63) - 1
_ORDER_BITS, _RANK_BITS = 41, 20


def place_among_ranks() -> tuple[int, int]:
    """Return this process's rank and how many there are, also before process groups exist."""
    import os

    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return (int(rank), int(size)) if rank.isdecimal() and size.isdecimal() else (0, 1)


class Ranks:
    """The processes that train one model together, as far as they must stop together."""

    def __init__(self, group: Any = "auto") -> None:
        self.pending: FirstBad | None = None
        """What went bad on this rank, until all have agreed."""
        self.order = 0
        """Which frame of the batch that was; ranks need not number their batches alike."""
        self._asked = group
        self._uneven = False
        """Whether ranks may call the model a different number of times."""
        self._group: Any = None
        self._ready = False

    @property
    def rank(self) -> int:
        """This process's rank; 0 where there is only one."""
        return place_among_ranks()[0]

    @property
    def size(self) -> int:
        """How many processes there are."""
        return place_among_ranks()[1]

    def several(self) -> bool:
        """Whether others have to be asked."""
        distributed = torch.distributed
        if self._asked is None or self._uneven or not distributed.is_available():
            return False
        if not distributed.is_initialized():
            return False
        group = None if self._asked == "auto" else self._asked
        return bool(distributed.get_world_size(group) > 1)

    def batch_begins(self, model: torch.nn.Module) -> None:
        """Look whether ranks train within a `Join` context, where no collective can be added."""
        distributed = torch.distributed
        if self._asked is None or not distributed.is_available():
            return
        if not distributed.is_initialized():
            return
        uneven = _joins(model)
        if uneven and not self._uneven:
            log.warning(
                "ranks join with uneven inputs: they cannot agree on what is bad, so each stops by "
                "itself"
            )
        self._uneven = uneven

    def agree(self) -> tuple[FirstBad | None, list[int]]:
        """Return what went bad first on any rank, and which other ranks are bad too.

        All ranks of the group have to call it.
        """
        if not self.several():
            chosen, self.pending = self.pending, None
            return chosen, []
        distributed = torch.distributed
        group = self._cpu_group()
        key = torch.tensor([self._key()], dtype=torch.int64)
        distributed.all_reduce(key, op=distributed.ReduceOp.MIN, group=group)
        if int(key) == _NOTHING:
            return None, []
        size = distributed.get_world_size(group)
        gathered: list[Any] = [None] * size
        distributed.all_gather_object(gathered, (self._key(), self.pending), group=group)
        bad = sorted((k, found) for k, found in gathered if found is not None)
        chosen = bad[0][1]
        return chosen, [found.rank for _, found in bad[1:]]

    def _key(self) -> int:
        if self.pending is None:
            return _NOTHING
        order = min(max(self.order, 0), (1 << _ORDER_BITS) - 1)
        # Where one shard of a weight is bad, the ranks with the others see a bad output at once.
        passed = self.pending.origin in (Origin.PRODUCER, Origin.BETWEEN)
        place = (order << 1 | passed) << _RANK_BITS
        return place | min(self.rank, (1 << _RANK_BITS) - 1)

    def _cpu_group(self) -> Any:
        """Return a group that reduces numbers in memory; made when all ranks are here at once."""
        if not self._ready:
            distributed = torch.distributed
            group = None if self._asked == "auto" else self._asked
            backend = str(distributed.get_backend_config(group))
            if "cpu:" not in backend and "gloo" not in backend:
                ranks = distributed.get_process_group_ranks(group or distributed.group.WORLD)
                group = distributed.new_group(ranks, backend="gloo")
            self._group, self._ready = group, True
        return self._group


def _joins(model: torch.nn.Module) -> bool:
    """Whether a model, or the DDP module that is calling it, is in a `Join` context."""
    ddp: Any = torch.nn.parallel.DistributedDataParallel
    for module in (model, getattr(ddp, "_active_ddp_module", None)):
        config = getattr(module, "_join_config", None) if isinstance(module, ddp) else None
        if config is not None and config.enable:
            return True
    return False
