"""Ranks of one host, without a launcher's library: some_ranks.py COUNT COMMAND...; how all ended."""

import os
import signal
import subprocess
import sys

COUNT = int(sys.argv[1])


def start(rank: int) -> subprocess.Popen[bytes]:
    env = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(COUNT)}
    return subprocess.Popen(sys.argv[2:], env={**os.environ, **env})


def end(number: int, frame: object) -> None:
    for one in ranks:
        one.terminate()


ranks = [start(rank) for rank in range(COUNT)]
signal.signal(signal.SIGTERM, end)
ends = [one.wait() for one in ranks]
print(ends)
sys.exit(any(ends))
