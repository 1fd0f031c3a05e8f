"""One rank of a training under the monitor: RANK, WORLD_SIZE, STORE (a file) from the environment.

watched_ranks.py KIND BAD_RANK FLIGHT
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from postmortem import NumericsMonitor

kind, bad_rank, flight = sys.argv[1], int(sys.argv[2]), sys.argv[3]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.FileStore(os.environ["STORE"], size)
dist.init_process_group("gloo", store=store, rank=rank, world_size=size)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x, spoil):
        x = self.first(x)
        return self.second(x / 0 if spoil else x)


torch.manual_seed(0)
model = Model()
if kind == "fsdp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (size,))
    for layer in (model.first, model.second):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    watched = called = model
else:
    watched = model
    called = DistributedDataParallel(model)
optimizer = torch.optim.SGD(called.parameters(), lr=0.01)
try:
    with NumericsMonitor(watched, flight=flight) as monitor:
        for batch in range(4):
            if rank == 0 and batch == 1:  # a rank that evaluates alone must not wait for others
                if kind != "fsdp":
                    with torch.no_grad():
                        model(torch.ones(1, 4), False)
            spoil = rank == bad_rank and batch == 2
            if kind == "accumulate" and batch % 2 == 0:
                with called.no_sync():
                    called(torch.ones(2, 4), spoil).sum().backward()
                continue
            called(torch.ones(2, 4), spoil).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
except ValueError as error:
    found = error.first_bad
    print(
        f"RAISED rank={found.rank} module={found.module} batch={found.batch} {found.origin.value}"
    )
    print(f"SAID {error}")
else:
    print("FINE")
dist.destroy_process_group()
# Without the interpreter's own ending: the group's thread, which DistributedDataParallel keeps alive, may still have to
# drop what autograd left of Python in the last collective, and then it aborts the process (pytorch/pytorch#38228).
sys.stdout.flush()
os._exit(0)
