"""A data set shrinks while a training process has it mapped: SIGBUS behind the new end."""

import mmap
import os
import threading
from pathlib import Path

SHARD = Path("shard-00017.bin")
SHARD_BYTES = 8 << 20


def write_shard() -> None:
    with SHARD.open("wb") as file:
        for block in range(SHARD_BYTES >> 12):
            file.write(bytes([block & 255]) * 4096)


def read_sample(shard: mmap.mmap, offset: int) -> int:
    return shard[offset]


def train(shard: mmap.mmap) -> int:
    total = 0
    for offset in range(0, SHARD_BYTES, 1 << 20):
        total += read_sample(shard, offset)
    return total


def main() -> None:
    threading.Thread(target=threading.Event().wait, name="prefetch", daemon=True).start()
    write_shard()
    with SHARD.open("rb") as file:
        shard = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    os.truncate(SHARD, 1 << 20)  # as another job does that prepares the data set again
    train(shard)


main()
