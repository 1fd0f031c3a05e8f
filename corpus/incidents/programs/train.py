"""A job of several ranks with one fault, or none: ``train.py FAULT [RANK]`` under torchrun.

Every fault is real: nothing here only prints what a failure would print.
"""

import ctypes
import errno
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

FAULT = sys.argv[1]
GUILTY = {int(rank) for rank in sys.argv[2].split(",")} if len(sys.argv) > 2 else set()
RANK = int(os.environ.get("RANK", "0"))
MINE = RANK in GUILTY


class Rows(Dataset):
    """Rows of numbers; one of them ends its worker where that is the fault."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if MINE and index == 21:
            if FAULT == "worker-segv":
                ctypes.string_at(8)
            if FAULT == "worker-kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if FAULT == "worker-raise":
                raise ValueError(f"row {index} has 3 columns, not 4")
        return torch.ones(4)


def save(model, path):
    torch.save(model.state_dict(), path)


def fail(step, model):
    if FAULT == "segv":
        ctypes.string_at(16)
    if FAULT == "raise":
        raise KeyError("lr")
    if FAULT == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "exit":
        os._exit(7)
    if FAULT == "both" and min(GUILTY) == RANK:
        raise KeyError("lr")
    if FAULT == "both":
        ctypes.string_at(16)
    if FAULT == "disk":
        save(model, Path(os.environ["CKPT"]) / f"step_{step}.pt")
    if FAULT == "files":
        held = [os.open("/dev/null", os.O_RDONLY) for _ in range(100_000)]
        print(len(held))
    if FAULT == "sleep":
        time.sleep(3600)
    if FAULT == "shape":
        dist.all_reduce(torch.ones(1000))
    if FAULT == "skip":
        return
    if FAULT == "nan":
        with torch.no_grad():
            model.weight[0, 0] = float("nan")


def main():
    kind = os.environ.get("TIMEOUT")
    from datetime import timedelta

    dist.init_process_group("gloo", timeout=timedelta(seconds=int(kind or 60)))
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    workers = 2 if FAULT.startswith("worker") else 0
    losses = []
    for step, batch in enumerate(DataLoader(Rows(), batch_size=8, num_workers=workers)):
        if MINE and step == 3:
            fail(step, model)
        if MINE and step == 3 and FAULT == "skip":
            continue
        loss = model(batch).sum()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item())
        print(f"step {step} loss {total.item():.4f}", flush=True)
        if FAULT == "warn" and step == 2:
            warnings.warn("ERROR in the metric: division by zero, value set to 0", stacklevel=1)
            try:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "metrics server does not answer")
            except ConnectionRefusedError as error:
                print(f"ERROR: cannot send metrics: {error!r}; going on", file=sys.stderr)
        if FAULT == "nan" and total != total and RANK == 0:
            save(model, Path(os.environ["CKPT"]) / "step_last.pt")
            raise RuntimeError(f"loss is nan at step {step}: stopping")
    dist.barrier()
    dist.destroy_process_group()
    print("finished", flush=True)


main()
