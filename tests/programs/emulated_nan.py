"""A model that is trained under the numerics monitor, for a fault that comes from outside."""

import gc

gc.disable()  # importing torch takes half as long again with it
import torch

from postmortem import NumericsMonitor

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
with NumericsMonitor(model):
    for _ in range(6):
        model.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        with torch.no_grad():  # an optimizer would import the compiler
            for weights in model.parameters():
                weights -= 0.01 * weights.grad
print("trained")
