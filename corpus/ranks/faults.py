"""Faults of distributed programs, each on a rank of choice: ``torchrun … faults.py FAULT [RANK]``.

Writes which fault it made into the folder TRUTH, just before it makes it.
"""

import ctypes
import datetime
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FAULT = sys.argv[1]
CULPRIT = int(sys.argv[2]) % WORLD if len(sys.argv) > 2 else 0
GUILTY = RANK == CULPRIT


class ShardMissing(Exception):
    """An exception whose name does not end in Error."""


def truth(what: str) -> None:
    folder = os.environ.get("TRUTH")
    if folder:
        (Path(folder) / f"{RANK}_{what}").touch()


def train_step(count: int = 1) -> None:
    for _ in range(count):
        dist.all_reduce(torch.ones(1000))


def start(seconds: float = 8.0) -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=seconds))
    train_step(3)


def config_key() -> None:
    start()
    if GUILTY:
        truth("raise")
        {"lr": 1}["learning_rate"]
    train_step(10_000)


def shard() -> None:
    start()
    if GUILTY:
        truth("raise")
        try:
            Path("/nonexistent/shard-00007.bin").read_bytes()
        except OSError as error:
            raise ShardMissing("shard 7 of 64\nis not on this node") from error
    train_step(10_000)


def caught_first() -> None:
    """Another rank logs an error that it survives, long before."""
    import logging

    start()
    if (CULPRIT + 1) % WORLD == RANK:
        try:
            raise ConnectionError("metrics server is away")
        except ConnectionError:
            logging.exception("cannot send metrics")
    for step in range(30):
        train_step()
        print(f"step {step} of rank {RANK}", file=sys.stderr, flush=True)
    if GUILTY:
        truth("raise")
        raise ValueError(f"target {RANK + 50257} is out of bounds")
    train_step(10_000)


def null_pointer() -> None:
    start()
    if GUILTY:
        truth("segv")
        ctypes.string_at(0)
    train_step(10_000)


def killed() -> None:
    start()
    if GUILTY:
        truth("kill")
        os.kill(os.getpid(), signal.SIGKILL)
    train_step(10_000)


def bus() -> None:
    start()
    if GUILTY:
        truth("bus")
        os.kill(os.getpid(), signal.SIGBUS)
    train_step(10_000)


def exits_three() -> None:
    start()
    if GUILTY:
        truth("exit3")
        os._exit(3)
    train_step(10_000)


def leaves() -> None:
    start()
    if GUILTY:
        truth("exit0")
        os._exit(0)
    train_step(10_000)


def sleeps() -> None:
    start(5.0)
    if GUILTY:
        truth("late")
        time.sleep(25)
    train_step(2)


def skips() -> None:
    start(5.0)
    if not GUILTY:
        train_step()
    else:
        truth("skips")
    dist.barrier()


def reduces() -> None:
    start(5.0)
    if GUILTY:
        truth("op")
        dist.broadcast(torch.ones(8), src=CULPRIT)
    else:
        train_step()
    dist.barrier()


def shape() -> None:
    start(5.0)
    truth("shape") if GUILTY else None
    dist.all_reduce(torch.ones(7 if GUILTY else 4))
    dist.barrier()


def thread() -> None:
    start(5.0)
    if GUILTY:

        def load() -> None:
            truth("thread")
            raise OSError(5, "Input/output error", "/data/shard3")

        loader = threading.Thread(target=load, name="loader-0")
        loader.start()
        loader.join()
        time.sleep(25)
    train_step(2)


def monitored() -> None:
    start(8.0)
    if GUILTY:
        truth("late")
        time.sleep(20)
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=4))


def everybody() -> None:
    start()
    truth("raise")
    raise TypeError(f"forward() got an unexpected keyword argument 'mask_{RANK}'")


def wraps() -> None:
    """Victims put the error of the collective into one of their own."""
    start()
    if GUILTY:
        truth("raise")
        raise AssertionError
    try:
        train_step(10_000)
    except RuntimeError as error:
        raise RuntimeError("training failed at step 7") from error


def cleans_up() -> None:
    """The culprit's clean-up fails too, with a victim's words."""
    start(5.0)
    if GUILTY:
        try:
            truth("raise")
            raise MemoryError("cannot allocate 3 GiB")
        finally:
            time.sleep(0.2)
            dist.barrier() if WORLD < 0 else None
    train_step(10_000)


def group() -> None:
    start()
    if GUILTY:
        truth("raise")
        raise ExceptionGroup("two workers", [ValueError("bad row 12"), KeyError("id")])
    train_step(10_000)


def well() -> None:
    start()
    for step in range(20):
        train_step()
        print(f"step {step} loss {1 / (step + 1):.3f}", flush=True)
    dist.destroy_process_group()


globals()[FAULT]()
