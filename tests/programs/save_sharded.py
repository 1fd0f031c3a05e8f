"""One of two ranks that save an FSDP2 layer: ``save_sharded.py FOLDER RANK``.

They make FOLDER/dcp and a file of each rank.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

_RANKS = 2


def save(rank: int, folder: Path) -> None:
    """Shard a layer over the ranks, spoil a weight of the second one, save it in two ways."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=_RANKS
    )
    layer = torch.nn.Linear(5, 7)
    fully_shard(layer, mesh=init_device_mesh("cpu", (_RANKS,)))
    if rank == 1:
        with torch.no_grad():
            layer.weight._local_tensor[1, 2] = float("nan")  # type: ignore[operator]
    dcp.save(layer.state_dict(), checkpoint_id=folder / "dcp")
    torch.save(layer.state_dict(), folder / f"rank{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    save(int(sys.argv[2]), Path(sys.argv[1]))
