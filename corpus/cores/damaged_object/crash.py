"""Text is written over an object's type; the garbage collector comes across it later."""

import ctypes
import gc


class Batch:
    """What a collate function makes."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows


def overrun(victim: Batch) -> None:
    """Write past the end of a neighbour, as native code would."""
    ctypes.memset(id(victim) + 8, ord("A"), 8)  # ob_type follows the reference count


def load() -> list[Batch]:
    batches = [Batch([n]) for n in range(10)]
    overrun(batches[3])
    return batches


def train() -> None:
    batches = load()
    gc.collect()
    print(len(batches))


gc.disable()
train()
