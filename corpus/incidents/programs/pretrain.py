"""A training as others write them, whose lines name no process: ``pretrain.py RANK=FAULT``.

Every fault is real and comes at step 5; how it is logged, and how long it runs, is as in
``STEPS``, ``SAVE`` (a folder for checkpoints), ``TIMEOUT`` and ``PAUSE``.
"""

import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
MINE = [word.partition("=")[2] for word in sys.argv[1:] if word.startswith(f"{RANK}=")]
SAVE = os.environ.get("SAVE")
LOG = logging.getLogger("pretrain")
VOCABULARY = threading.Lock()


def parse(line):
    return [float(value) for value in line.split(",")]


def refresh():
    """Keep the lock while nobody answers."""
    with VOCABULARY:
        threading.Event().wait()


def encode():
    with VOCABULARY:
        return 1


def shards():
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
    return [Path("/proc/self/stat").open() for _ in range(100)]


def next_shard():
    """Read what nobody writes."""
    ends = os.pipe()
    os.read(ends[0], 1)


def fail(fault):
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if fault == "read":
        next_shard()
    if fault == "value":
        parse("0.3,0.9,n/a")
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exit":
        sys.exit(3)
    if fault == "files":
        shards()
    if fault == "spin":
        while True:
            pass
    if fault == "busy":
        time.sleep(float(os.environ["BUSY"]))
        LOG.info("wrote samples")
    if fault == "lock":
        threading.Thread(target=refresh, name="refresh", daemon=True).start()
        time.sleep(0.5)
        encode()
    if fault == "retry":
        for turn in range(3):
            try:
                raise ConnectionRefusedError(111, "Connection refused")
            except ConnectionRefusedError:
                LOG.exception("cannot send metrics (try %d of 3)", turn + 1)


def flight():
    from torch._C._distributed_c10d import _dump_fr_trace

    Path(f"fr_{RANK}").write_bytes(_dump_fr_trace())


def stopped(number, frame):
    LOG.warning("got signal %d, saving", number)
    torch.save({"rank": RANK}, Path("missing") / f"last.{RANK}.pt")


def main():
    form = f"%(asctime)s - %(levelname)s - %(name)s - [rank{RANK}] %(message)s"
    logging.basicConfig(level=logging.INFO, format=form)
    faulthandler.register(signal.SIGUSR1)
    if WORLD > 1:
        dist.init_process_group(
            "gloo", timeout=timedelta(seconds=int(os.environ.get("TIMEOUT", "1800")))
        )
    if "HANDLER" in os.environ:
        signal.signal(signal.SIGTERM, stopped)
    if "FLIGHT" in os.environ:
        look = threading.Timer(float(os.environ["FLIGHT"]), flight)
        look.daemon = True
        look.start()
    if "LATER" in os.environ:
        faulthandler.dump_traceback_later(float(os.environ["LATER"]), repeat=True)
    torch.manual_seed(0)
    model = torch.nn.Linear(32, 32)
    steps = int(os.environ.get("STEPS", "8"))
    for step in range(steps):
        batch = torch.randn(8, 32)
        for fault in MINE if step == 5 else ():
            if fault == "nan":
                batch[3, 7] = float("nan")
            fail(fault)
        own = model(batch).square().mean().detach()
        mean = own.clone()
        if WORLD > 1:
            dist.all_reduce(mean)
        mean /= WORLD
        LOG.info("step %d/%d loss=%.4f (local %.4f)", step, steps, mean.item(), own.item())
        if "CHECKED" in os.environ and mean != mean:
            raise FloatingPointError(f"loss is {mean.item()} at step {step}, stopping")
        if SAVE and step % 4 == 3 and RANK == 0:
            try:
                torch.save(model.state_dict(), Path(SAVE) / f"step_{step}.pt")
            except Exception as error:
                LOG.warning("could not save: %s; will try again next time", error)
        time.sleep(float(os.environ.get("PAUSE", "0.05")))
    if WORLD > 1:
        dist.barrier()
        dist.destroy_process_group()
    LOG.info("training finished in %d steps", steps)


main()
