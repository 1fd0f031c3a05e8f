"""One rank of trainings under the monitor: RANK, WORLD_SIZE, STORE (a file) from the environment.

watched_ranks.py FOLDER KIND:BAD_RANK...: one training after the other; FOLDER/KIND-BAD_RANK-RANK.txt
is what each rank has to say of it, and FOLDER/KIND-BAD_RANK/ has the flight files.
"""

import math
import os
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from postmortem import NumericsMonitor

FOLDER = Path(sys.argv[1])
LOSS = ("fsdp_loss", "fsdp_later")
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x, spoil):
        x = self.first(x)
        if spoil == "backward":
            x.register_hook(lambda gradient: gradient * math.inf)
        return self.second(x / 0 if spoil is True else x)


def train(kind, bad_rank, flight):
    torch.manual_seed(0)
    model = Model()
    if kind.startswith("fsdp"):
        mesh = init_device_mesh("cpu", (SIZE,))
        for layer in (model.first, model.second):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        called = model
    else:
        called = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(called.parameters(), lr=0.01)
    uneven = Join([called]) if kind == "join" else nullcontext()
    with NumericsMonitor(model, flight=flight), uneven:
        for batch in range(2 + 2 * RANK if kind == "join" else 5):
            # A rank that evaluates alone must not wait for others.
            if RANK == 0 and batch == 1 and not kind.startswith("fsdp"):
                with torch.no_grad():
                    model(torch.ones(1, 4), False)
            spoil = RANK == bad_rank and batch == 2
            if spoil and kind == "fsdp_weight":
                model.first.weight.to_local().detach()[0, 0] = math.nan
                spoil = False
            if kind == "accumulate" and batch % 2 == 0:
                with called.no_sync():
                    called(torch.ones(2, 4), spoil).sum().backward()
                continue
            if kind == "fsdp_later":  # gradients of batches 2 and 3 are summed together
                model.set_requires_gradient_sync(batch != 2)
            in_model = "backward" if kind == "fsdp_backward" else kind not in LOSS
            loss = called(torch.ones(2, 4), spoil and in_model).sum()
            (loss * math.inf if spoil and kind in LOSS else loss).backward()
            if kind != "fsdp_later" or batch != 2:
                optimizer.step()
                optimizer.zero_grad()


def tell(kind, bad_rank, flight):
    try:
        train(kind, bad_rank, flight)
    except ValueError as error:
        found = error.first_bad
        place = f"rank={found.rank} module={found.module} batch={found.batch}"
        print(f"RAISED {place} {found.origin.value}\nSAID {error}")
    else:
        print("FINE")


store = dist.FileStore(os.environ["STORE"], SIZE)
dist.init_process_group("gloo", store=store, rank=RANK, world_size=SIZE)
for case in sys.argv[2:]:
    kind, bad_rank = case.split(":")
    flights = FOLDER / f"{kind}-{bad_rank}"
    flights.mkdir(exist_ok=True)
    with (FOLDER / f"{flights.name}-{RANK}.txt").open("w") as file, redirect_stdout(file):
        tell(kind, int(bad_rank), f"{flights}/")
dist.destroy_process_group()
# Without the interpreter's own ending: the group's thread, which DistributedDataParallel keeps alive, may still have to
# drop what autograd left of Python in the last collective, and then it aborts the process (pytorch/pytorch#38228).
os._exit(0)
