"""Keeps every batch that it has seen."""

import time

seen = []


def remember(batch):
    seen.append(b"x" * batch)


for _ in range(1000):
    remember(4 << 20)
    time.sleep(0.2)
