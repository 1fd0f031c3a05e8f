"""Two ranks that wait for each other in different calls: run it by torchrun --nproc-per-node 2."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
loss = torch.zeros(1)
for step in range(10):
    dist.all_reduce(loss)
    if step == 5 and dist.get_rank() == 0:
        dist.barrier()
    elif step == 5:
        dist.recv(loss, src=0)
