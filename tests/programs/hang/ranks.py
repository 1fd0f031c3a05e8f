"""A job of gloo ranks, of which one does something else: ranks.py KIND CULPRIT FOLDER."""

import ctypes
import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

KIND, CULPRIT, FOLDER = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
GATE = threading.Lock()


def keep() -> None:
    with GATE:
        time.sleep(10_000)


def take_lock() -> None:
    threading.Thread(target=keep, name="saver", daemon=True).start()
    while not GATE.locked():
        time.sleep(0.01)
    with GATE:
        print("never")


def read_fifo() -> None:
    with (FOLDER / "gate").open("rb", buffering=0) as gate:
        gate.read(1)


def compute() -> None:
    number = 0
    while True:
        number = number * 3 % 1_000_003 + 1


class Slow(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        read_fifo()
        return index


def load_batch() -> None:
    next(iter(torch.utils.data.DataLoader(Slow(), num_workers=1)))


def call_native() -> None:
    ctypes.CDLL(None).pause()


DO = {
    "lock": take_lock,
    "fifo": read_fifo,
    "busy": compute,
    "loader": load_batch,
    "native": call_native,
}


def train(rank: int) -> None:
    total = torch.ones(1)
    dist.all_reduce(total)
    (FOLDER / f"ready{rank}").write_text(str(os.getpid()))
    step = 0
    while True:
        if rank == CULPRIT and KIND in DO:
            DO[KIND]()
        time.sleep(0.01 * (1 + step % 3))
        dist.all_reduce(total)
        step += 1


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(dist.get_rank())


if __name__ == "__main__":
    main()
