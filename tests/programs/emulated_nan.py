"""A model that is trained under the numerics monitor, for a fault that comes from outside."""

import torch

from postmortem import NumericsMonitor

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with NumericsMonitor(model):
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
print("trained")
