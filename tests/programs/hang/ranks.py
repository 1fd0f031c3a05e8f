"""A job of gloo ranks, of which one is told to do something else: ranks.py CULPRIT FOLDER.

The file FOLDER/order names it. A byte through FOLDER/gate ends what reads there, SIGUSR1 all else;
then the file FOLDER/over is written, and the ranks go on.
"""

import ctypes
import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path

gc.disable()  # importing torch takes half as long again with it
if os.environ["RANK"] == sys.argv[1]:  # a loader of data needs what quick/ leaves out
    sys.modules.pop("torch._meta_registrations", None)
import torch
import torch.distributed as dist

CULPRIT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])


class Released(Exception):
    """SIGUSR1 came."""


def release(number: int, frame: object) -> None:
    raise Released


def take_lock() -> None:
    lock = threading.Lock()

    def keep() -> None:
        with lock:
            time.sleep(10_000)

    threading.Thread(target=keep, name="saver", daemon=True).start()
    while not lock.locked():
        time.sleep(0.01)
    with lock:
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
        return 1

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


def obey(order: Path) -> None:
    kind = order.read_text()
    if not kind:
        return
    order.unlink()
    try:
        DO[kind]()
    except Released:
        pass
    (FOLDER / "over").touch()


def train(rank: int) -> None:
    if rank == CULPRIT:
        signal.signal(signal.SIGUSR1, release)
    total = torch.ones(1)
    dist.all_reduce(total)
    (FOLDER / f"ready{rank}").write_text(str(os.getpid()))
    step = 0
    while True:
        if rank == CULPRIT and (FOLDER / "order").exists():
            obey(FOLDER / "order")
        time.sleep(0.01 * (1 + step % 3))
        dist.all_reduce(total)
        step += 1


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(dist.get_rank())


if __name__ == "__main__":
    main()
