"""Ranks that meet in a collective again and again, and need no PyTorch: what tells it is its place.

meeting_ranks.py KIND: they are even, or rank 1 is slow, or stuck after some steps; then the file
steps.RANK is there.
"""

import contextlib
import itertools
import os
import sys
import threading

RANK, OTHERS = int(os.environ["RANK"]), [*range(int(os.environ["WORLD_SIZE"]))]
OTHERS.remove(RANK)


def opened(start: int, to: int) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkfifo(f"from{start}to{to}")
    return os.open(f"from{start}to{to}", os.O_RDWR)


MOUTHS = [opened(RANK, other) for other in OTHERS]
EARS = [opened(other, RANK) for other in OTHERS]
COLLECTIVE = """
def all_reduce():
    for mouth in MOUTHS:
        os.write(mouth, b".")
    for ear in EARS:
        os.read(ear, 1)
"""
exec(compile(COLLECTIVE, "/packages/torch/distributed/distributed_c10d.py", "exec"))


def load(kind: str) -> None:
    threading.Event().wait({"even": 0.05, "slow": 1, "stuck": None}[kind])


kind = sys.argv[1] if RANK == 1 else "even"
for step in itertools.count():
    if step == 3:
        open(f"steps.{RANK}", "w").close()
    all_reduce()
    load(kind if step > 3 else "even")
