"""Writes to a mapped file in a tmpfs that has no page left: crash.py FOLDER."""

import mmap
import sys
from pathlib import Path

path = Path(sys.argv[1]) / "torch_4711_shared"
with path.open("w+b") as stream:
    stream.truncate(64 << 20)
    view = mmap.mmap(stream.fileno(), 0)
for offset in range(0, 64 << 20, 4096):
    view[offset] = 1
