"""A small trainer whose watchdog thread throws: crash.py LIBRARY."""

import ctypes
import os
import sys
import threading

os.environ.update(RANK="3", WORLD_SIZE="8", LOCAL_RANK="3", MASTER_ADDR="10.0.0.1")

import torch

torch.set_num_threads(16)
library = ctypes.CDLL(sys.argv[1])


def dataloader_worker():
    threading.Event().wait()


for i in range(8):
    threading.Thread(target=dataloader_worker, daemon=True, name=f"pin_memory_{i}").start()

model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train_step(batch):
    loss = model(batch).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


train_step(torch.randn(128, 256))
threading.Thread(target=library.start_watchdog, name="watchdog starter").start()
while True:
    train_step(torch.randn(128, 256))
