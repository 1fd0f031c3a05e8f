"""The process of one rank: store, process group, all-reduce; each stage is told as it begins.

``python -m postmortem.net.reducing BACKEND HOST PORT RANK WORLD SECONDS``
"""

import gc
import json
import os
import resource
import sys
import threading
import time
from typing import Any


def main() -> None:
    """Run the stages; what ends them is told as the last line."""
    backend, host, port, rank, world, seconds = sys.argv[1:7]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # The limit is for what other hosts send to our parent; PyTorch needs what it needs.
    resource.setrlimit(resource.RLIMIT_DATA, (resource.getrlimit(resource.RLIMIT_DATA)[1],) * 2)
    began = time.monotonic()
    try:
        _run(backend, host, int(port), int(rank), int(world), float(seconds))
    except Exception as error:
        words = str(error).strip().splitlines() or [type(error).__name__]
        _say(_stage[0], time.monotonic() - began, f"{type(error).__name__}: {words[0]}")
    sys.stdout.flush()
    os._exit(0)  # threads of gloo that wait for a peer keep nobody


_stage = ["import"]


def _run(backend: str, host: str, port: int, rank: int, world: int, seconds: float) -> None:
    began = time.monotonic()
    _say("import", None)
    gc.disable()  # what is imported stays to the end: a sixth of the time
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    limit = timedelta(seconds=seconds)
    began = _next("store", began)
    store = dist.TCPStore(host, port, world, rank == 0, limit, wait_for_workers=True)
    began = _next("group", began)
    device: Any = torch.device("cuda", 0) if backend == "nccl" else torch.device("cpu")
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=limit)
    began = _next("all_reduce", began)
    tensor = torch.full((1 << 16,), float(rank + 1), device=device)
    dist.all_reduce(tensor)
    right = world * (world + 1) / 2
    if not bool((tensor == right).all()):
        raise ValueError(f"the sum is {tensor[0].item()}, not {right}")
    store.set(f"done{rank}", "1")
    if rank == 0:  # the store ends with it: nobody else may ask for anything from now on
        store.wait([f"done{other}" for other in range(world)], limit)
    _next("done", began)


def _next(stage: str, began: float) -> float:
    now = time.monotonic()
    _stage[0] = stage
    _say(stage, now - began)
    return now


def _say(stage: str, seconds: float | None, error: str | None = None) -> None:
    sys.stdout.write(json.dumps({"stage": stage, "seconds": seconds, "error": error}) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
