"""Maps a file and reads beyond where it was cut meanwhile."""

import mmap
from pathlib import Path

shard = Path("shard-00017.bin")
shard.write_bytes(bytes(1 << 20))
with shard.open("r+b") as stream:
    view = mmap.mmap(stream.fileno(), 0)
    stream.truncate(64 << 10)
print(view[512 << 10], flush=True)
