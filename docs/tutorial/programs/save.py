"""Saves five checkpoints into a folder."""

import torch

for step in range(5):
    torch.save({"weight": torch.zeros(200_000)}, f"checkpoints/step_{step}.pt")
    print("saved", step, flush=True)
