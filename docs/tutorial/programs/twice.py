"""Trains one model in the data type that is named; the monitor keeps the last frames in a file."""

import sys

import torch
from torch import nn

from postmortem import NumericsMonitor

torch.manual_seed(0)
dtype = getattr(torch, sys.argv[1])
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
model[2].weight.data *= 20
model = model.to(dtype)
with NumericsMonitor(model, flight=sys.argv[2], on_bad="report"):
    for step in range(3):
        rows = torch.full((1, 16), 40.0 * 20**step, dtype=dtype)
        model(rows).sum().backward()
