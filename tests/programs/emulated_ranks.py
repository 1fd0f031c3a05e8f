"""Ranks that meet in a collective again and again, for a fault that comes from outside."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
tensor = torch.ones(4)
for _ in range(2000):
    dist.all_reduce(tensor)
    time.sleep(0.02)
