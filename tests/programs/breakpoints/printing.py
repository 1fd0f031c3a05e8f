"""printing.py RANK COUNT LONG: COUNT lines, each with its own check; every 50th is LONG bytes."""

import os
import sys

from postmortem import printflock

rank, count, long = map(int, sys.argv[1:])
os.environ.update(RANK=str(rank), WORLD_SIZE="8")
for number in range(count):
    body = chr(ord("a") + (rank + number) % 26) * (long if number % 50 == 0 else 60)
    printflock(number, body, len(body))
