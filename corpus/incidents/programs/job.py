"""A job of several ranks, with a fault for each rank that shall have one: ``job.py RANK=FAULT``.

Every fault is real and comes at step 3; what others make of it is theirs. ``FAULT@N`` comes in the
N-th attempt of torchrun only.
"""

import ctypes
import fcntl
import logging
import mmap
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

RANK = int(os.environ.get("RANK", "0"))
ATTEMPT = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
LOG = logging.getLogger("train")


def faults():
    for word in sys.argv[1:]:
        rank, _, fault = word.partition("=")
        fault, _, attempt = fault.partition("@")
        if int(rank) == RANK and attempt in ("", ATTEMPT):
            yield fault


MINE = list(faults())


class Rows(Dataset):
    """Rows of numbers; one of them ends its worker where that is the fault."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 29 and any(fault.startswith("worker") for fault in MINE):
            time.sleep(1)  # until the other ranks are where this one is missed
        if index == 29 and "worker-kill" in MINE:
            os.kill(os.getpid(), signal.SIGKILL)
        if index == 29 and "worker-segv" in MINE:
            ctypes.string_at(8)
        if index == 29 and "worker-abort" in MINE:
            os.abort()
        if index == 29 and "worker-waits" in MINE:
            read_row("rows.fifo")
        return torch.ones(4)


def read_row(path):
    """Read from a pipe that nobody writes to."""
    os.mkfifo(path)
    with Path(path).open("rb") as rows:
        return rows.read(16)


def save(tensors, folder, name):
    torch.save(tensors, Path(folder) / name)


def locked():
    """Stand before a lock that a thread keeps."""
    lock = threading.Lock()

    def upload():
        with lock:
            time.sleep(3600)

    threading.Thread(target=upload, name="uploader", daemon=True).start()
    time.sleep(0.5)
    with lock:
        print("uploaded")


def evaluate():
    """Read what a script writes, whose child lives on and keeps the pipe open."""
    words = ["sh", "-c", "sleep 3600 & echo perplexity 12.4"]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


def crossed():
    """Take two locks in one order while a thread takes them in the other."""
    cache, queue = threading.Lock(), threading.Lock()

    def prefetch():
        with queue:
            time.sleep(1)
            with cache:
                pass

    threading.Thread(target=prefetch, name="prefetcher", daemon=True).start()
    with cache:
        time.sleep(1)
        with queue:
            pass


def deep(level):
    return list(map(deep, [level + 1]))


def wait_for_others(path):
    """Stand before a file's lock that a program of somebody else holds."""
    with Path(path).open("w") as shared:
        LOG.info("waiting for the shard index")
        fcntl.flock(shared, fcntl.LOCK_EX)


def starved():
    """Wait for what a thread would bring that has died."""
    rows = queue.Queue()

    def prefetch():
        raise ValueError("shard-00017.jsonl: record 13: unexpected end of JSON")

    threading.Thread(target=prefetch, name="prefetch", daemon=True).start()
    rows.get()


def shrunk(path):
    """Read a mapped file that somebody cuts meanwhile."""
    Path(path).write_bytes(bytes(mmap.PAGESIZE * 8))
    with Path(path).open("rb") as shard:
        mapped = mmap.mmap(shard.fileno(), 0, prot=mmap.PROT_READ)
    os.truncate(path, mmap.PAGESIZE)
    LOG.info("read %d bytes", len(mapped[mmap.PAGESIZE :]))


def flight():
    """Write PyTorch's own record of the collectives."""
    from torch._C._distributed_c10d import _dump_fr_trace

    Path(f"nccl_trace_rank_{RANK}").write_bytes(_dump_fr_trace())


def fail(fault, model):
    if fault == "raise":
        raise KeyError("lr")
    if fault == "value":
        raise ValueError("the tokenizer has 32000 words, the embedding 31000 rows")
    if fault == "segv-cd":
        os.chdir(str(RANK))
        ctypes.string_at(16)
    if fault == "segv":
        ctypes.string_at(16)
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exit":
        os._exit(9)
    if fault == "disk":
        save(model.state_dict(), os.environ["CKPT"], "step_3.pt")
    if fault == "disk-retried":
        try:
            save(model.state_dict(), os.environ["CKPT"], "step_3.pt")
        except Exception:
            LOG.exception("cannot save to %s; saving to the second place", os.environ["CKPT"])
            save(model.state_dict(), ".", "second_3.pt")
            LOG.info("saved")
    if fault == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        save({"weight": torch.ones(64, 64)}, ".", "step_3.pt")
    if fault == "lock":
        locked()
    if fault == "outsider":
        wait_for_others("shards.lock")
    if fault == "starved":
        starved()
    if fault == "gather":
        LOG.info("evaluate")
        dist.all_gather([torch.ones(1) for _ in range(dist.get_world_size())], torch.ones(1))
    if fault == "shrunk":
        shrunk("shard-00003.bin")
    if fault == "slow":
        time.sleep(float(os.environ["SLOW"]))
    if fault == "sleep":
        time.sleep(3600)
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if fault == "crossed":
        crossed()
    if fault == "deep":
        sys.setrecursionlimit(10**7)
        deep(0)
    if fault == "evaluate":
        LOG.info("%s", evaluate())
    if fault == "swallow":
        torch.ones(4).view(3, -1)
    if fault == "java":
        subprocess.run(["java", *os.environ["JAVA_WORDS"].split()], check=True)
    if fault == "helper":
        done = subprocess.run([sys.executable, "-c", "import ctypes; ctypes.string_at(24)"])
        LOG.warning("the indexer ended with %s; going on without its index", done.returncode)
    if fault == "frightening":
        try:
            raise ConnectionRefusedError(111, "metrics server does not answer")
        except ConnectionRefusedError:
            LOG.exception("cannot send metrics, will try again")
        print("FATAL: metric 'bleu' is not defined; skipped", file=sys.stderr, flush=True)
        LOG.error("worker heartbeat lost for 12 s (recovered)")
    if fault == "nan":
        with torch.no_grad():
            model.weight[0, 0] = float("nan")
    if fault == "local-nan":
        with torch.no_grad():
            model.weight[0, 0] = float("nan")
    if fault == "shape":
        dist.all_reduce(torch.ones(1000))


def batches(loader):
    """Yield the batches; what a loader's error is made into is what loops of this kind do."""
    rows = iter(loader)
    while True:
        try:
            batch = next(rows, None)
        except RuntimeError:
            if "worker-kill" not in MINE:
                raise
            raise ValueError("batch 3 has no rows: is the data set empty?") from None
        if batch is None:
            return
        yield batch


def main():
    shift = float(os.environ.get("CLOCK", "0"))
    if shift:
        logging.Formatter.converter = lambda _, seconds: time.gmtime(seconds + shift)
    form = f"%(asctime)s %(levelname)s rank {RANK} %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=form)
    seconds = int(os.environ.get("TIMEOUT", "60"))
    dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))
    if "QUIET" not in os.environ:
        LOG.info("rank %d of %d is pid %d", RANK, dist.get_world_size(), os.getpid())
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    if "FLIGHT" in os.environ:
        look = threading.Timer(float(os.environ["FLIGHT"]), flight)
        look.daemon = True
        look.start()
    workers = 2 if any(fault.startswith("worker") for fault in MINE) else 0
    for step, batch in enumerate(batches(DataLoader(Rows(), batch_size=8, num_workers=workers))):
        try:
            if step == 3:
                for fault in MINE:
                    fail(fault, model)
            total = model(batch).sum().detach()
            if "LOCAL" in os.environ:
                LOG.info("step %d local loss %.4f", step, total.item())
        except RuntimeError:
            if "swallow" not in MINE:
                raise
            continue  # the others are in the collective of this step
        dist.all_reduce(total)
        LOG.info("step %d loss %.4f", step, total.item())
        if total != total and RANK == 0:
            save(model.state_dict(), ".", "last.pt")
            raise FloatingPointError(f"loss is nan at step {step}: stopping")
        time.sleep(float(os.environ.get("PAUSE", "0.05")))
    dist.barrier()
    dist.destroy_process_group()
    LOG.info("finished after %d steps", step + 1)


main()
