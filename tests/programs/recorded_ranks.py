"""A gloo rank that parts ways, and its flight recording: RANK WORLD KIND FOLDER PORT.

Four ranks, in groups of two as well. KIND is what one of them does at the third call.
"""

import datetime
import pathlib
import pickle
import sys
import time

import torch
import torch.distributed as dist

rank, world, kind, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace", None)
to_json = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
if dump is None:
    sys.exit(77)
# Many ways to wait, one way out: a call that is not answered ends by its time-out.
PATIENCE = datetime.timedelta(seconds=10)
store = dist.TCPStore("127.0.0.1", int(sys.argv[5]), world, rank == 0)
dist.init_process_group("gloo", rank=rank, world_size=world, store=store, timeout=PATIENCE)
pairs = [dist.new_group([first, first + 1], timeout=PATIENCE) for first in range(0, world, 2)]
pair = pairs[rank // 2]
dist.all_reduce(torch.ones(4))
dist.all_reduce(torch.ones(4), group=pair)
dist.all_reduce(torch.ones(4))


def different_path():
    dist.broadcast(torch.ones(7), 0)


def usual_path():
    dist.all_reduce(torch.ones(7))


def gathering(size):
    dist.all_gather_into_tensor(torch.empty(size * world), torch.ones(size))


def in_pairs():
    dist.all_reduce(torch.ones(2), group=pair)


def settle():
    """Wait until all calls are noted as ended: a thread does that, a moment after they return."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if all(row["state"] == "completed" for row in pickle.loads(dump())["entries"]):
            return
        time.sleep(0.1)


try:
    if kind == "operation":
        different_path() if rank == 1 else usual_path()
    elif kind == "size":
        gathering(6 if rank == 1 else 4)
    elif kind == "pair":
        if rank != 3:
            in_pairs()
            usual_path()
    elif kind == "late":
        if rank == 1:
            time.sleep(14)
        usual_path()
    elif not (kind == "behind" and rank == 2):
        usual_path()
    settle()
except RuntimeError:
    pass
pathlib.Path(folder, f"fr_{rank}").write_bytes(dump())
if to_json is not None:
    data = to_json()
    data = data if isinstance(data, bytes) else data.encode()
    pathlib.Path(folder, f"json_{rank}").write_bytes(data)
try:
    store.set(f"written{rank}", "")
    if rank == 0:  # the store lives in this process; a rank that gloo ended writes nothing
        store.wait([f"written{other}" for other in range(world)], datetime.timedelta(seconds=30))
except RuntimeError:
    pass
