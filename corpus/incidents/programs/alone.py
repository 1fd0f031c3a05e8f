"""A program that trains alone and says nothing of its process: ``alone.py [FAULT]``."""

import ctypes
import os
import sys
import threading
import time
import traceback
import urllib.request

import torch
from torch.utils.data import DataLoader, Dataset

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
TOKENS = threading.Lock()


class Rows(Dataset):
    """Rows of numbers; those behind the 24th need a lock, or never come."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if FAULT == "locked" and index > 24:
            with TOKENS:
                return torch.ones(4)
        if FAULT == "worker-kill" and index == 29:
            os.kill(os.getpid(), 9)
        return torch.ones(4)


def keep_tokens():
    with TOKENS:
        time.sleep(3600)


def send(loss):
    """Send a number to somebody who does not listen."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:9/loss/{loss}", timeout=2)
    except OSError:
        traceback.print_exc()


def main():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    model.register_buffer("attn_mask", torch.full((4, 4), float("-inf")).triu(1))
    if FAULT == "locked":
        threading.Thread(target=keep_tokens, name="tokenizer", daemon=True).start()
        time.sleep(0.2)
    workers = 2 if FAULT in ("locked", "worker-kill") else 0
    for step, batch in enumerate(DataLoader(Rows(), batch_size=8, num_workers=workers)):
        if step == 5 and FAULT == "segv":
            ctypes.string_at(16)
        if step == 5 and FAULT == "exit":
            os._exit(3)
        if step == 4 and FAULT == "nan":
            with torch.no_grad():
                model.weight[0, 0] = float("nan")
        loss = model(batch).sum().item()
        print(f"step {step}: loss {loss:.4f}", flush=True)
        if step == 3 and FAULT in ("unsent", "unsent-raise"):
            send(loss)
        if step == 4 and FAULT == "unsent-raise":
            raise KeyError("the schedule has no step 4")
        if "CKPT" in os.environ and step and step % 2 == 0:
            torch.save(model.state_dict(), f"{os.environ['CKPT']}/step_{step}.pt")
        if step == 7 and FAULT == "nan":
            torch.multinomial(torch.softmax(model(batch), -1), 1)
        time.sleep(float(os.environ.get("PAUSE", "0.05")))
    print("training finished", flush=True)


if __name__ == "__main__":
    main()
