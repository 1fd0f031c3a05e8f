"""A data loader hands a null pointer to a C function: SIGSEGV in a worker thread."""

import ctypes
import queue
import threading

WORKERS = 4
BATCHES: queue.Queue[int] = queue.Queue(maxsize=8)
STARTED = threading.Barrier(WORKERS + 1)

libc = ctypes.CDLL(None)
libc.strlen.argtypes = [ctypes.c_void_p]
libc.strlen.restype = ctypes.c_size_t


class Record:
    """One sample with the address of its label in C memory; a corrupt one has none."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.text = ctypes.create_string_buffer(b"label %d" % index)
        self.label = None if index == 42 else ctypes.addressof(self.text)


def decode_label(record: Record) -> int:
    return int(libc.strlen(record.label))


def load_batch(first: int) -> int:
    records = [Record(index) for index in range(first, first + 4)]
    return sum(decode_label(record) for record in records)


def data_loader(worker: int) -> None:
    STARTED.wait()
    for first in range(worker * 4, 1000, WORKERS * 4):
        BATCHES.put(load_batch(first))


def train_step(batch: int) -> float:
    return 1.0 / (1 + batch)


def train() -> None:
    loss = 0.0
    while True:
        loss += train_step(BATCHES.get())


def main() -> None:
    for worker in range(WORKERS):
        name = f"data_loader_{worker}"
        threading.Thread(target=data_loader, args=(worker,), name=name, daemon=True).start()
    threading.Thread(target=threading.Event().wait, name="checkpoint_writer", daemon=True).start()
    STARTED.wait()
    train()


main()
