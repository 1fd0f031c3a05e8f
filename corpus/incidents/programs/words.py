"""Ranks that must have the same words: ``words.py``, with another version in ``WORDS`` of one."""

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
WORDS = os.environ["WORDS"].split(",")[RANK]
ROWS = {"2.1.0": 800, "2.2.0": 832}

print(f"rank {RANK}: torch {torch.__version__}, wordlist {WORDS}", flush=True)
dist.init_process_group("gloo", timeout=timedelta(seconds=30))
torch.manual_seed(0)
rows = 832 if os.environ.get("ROWS") == str(RANK) else ROWS[WORDS]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Embedding(rows, 4))
print(f"rank {RANK}: all have the same {rows} rows", flush=True)
time.sleep(0.1)
dist.destroy_process_group()
