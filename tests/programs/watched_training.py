"""Trains a small model under the monitor, and ends as it is told: kill, segv, done.

watched_training.py FLIGHT END [BAD_AT]
"""

import ctypes
import os
import signal
import sys

import torch

from postmortem import NumericsMonitor

flight, end, bad_at = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else -1
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with NumericsMonitor(model, flight=flight, on_bad="report"):
    for batch in range(4):
        if batch == bad_at:
            with torch.no_grad():
                model[2].weight.fill_(3e38)
        model(torch.ones(2, 8)).square().mean().backward()
        if batch == 3 and end == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if batch == 3 and end == "segv":
            ctypes.string_at(0)
        optimizer.step()
        optimizer.zero_grad()
