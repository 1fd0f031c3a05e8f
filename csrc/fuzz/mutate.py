#!/usr/bin/env python3
"""Replay mutated copies of real cores: `mutate.py PROGRAM ROUNDS SEED CORE...`.

PROGRAM is a fuzz target built with a sanitizer. Words of the dumped memory are swapped, moved,
emptied or blown up: pointers then lead to objects of other types, into circles, or out of the
core, which random bytes hardly ever do. A copy that makes the program fail is kept as
`failed-SEED-ROUND.core` in the current folder.
"""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

BATCH = 20


def mutate(core: bytes, words: list[int], chance: random.Random) -> bytes:
    """Return a copy with some words changed; `words` are offsets of words that are not zero."""
    copy = bytearray(core)
    for _ in range(chance.choice((1, 10, 100, 1000, 5000))):
        at = chance.choice(words)
        (old,) = struct.unpack_from("<Q", copy, at)
        new = chance.choice(
            (
                struct.unpack_from("<Q", core, chance.choice(words))[0],
                old + chance.choice((-16, -8, -1, 1, 8, 16, 4096)),
                old ^ 1 << chance.randrange(64),
                0,
                (1 << 63) - 1,
                (1 << 64) - 1,
                chance.randrange(1 << 64),
            )
        )
        struct.pack_into("<Q", copy, at, new % (1 << 64))
    if chance.random() < 0.05:
        del copy[chance.randrange(len(copy)) :]
    return bytes(copy)


def main(program: str, rounds: int, seed: int, cores: list[str]) -> int:
    """Print how many copies were replayed; 1 when the program failed on one."""
    seeds = []
    for path in cores:
        data = Path(path).read_bytes()
        values = memoryview(data[: len(data) & ~7]).cast("Q")
        # Behind the headers and notes: those are for the target of the core reader.
        seeds.append((data, [8 * i for i in range(2048, len(values)) if values[i]]))
    failed = done = 0
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, rounds, BATCH):
            paths = []
            for number in range(start, min(start + BATCH, rounds)):
                chance = random.Random(f"{seed} {number}")
                data, words = chance.choice(seeds)
                paths.append(Path(folder) / f"{number}.core")
                paths[-1].write_bytes(mutate(data, words, chance))
            done += len(paths)
            if replay(program, paths).returncode:
                for path in paths:
                    result = replay(program, [path])
                    if result.returncode:
                        failed += 1
                        kept = Path(f"failed-{seed}-{path.name}")
                        kept.write_bytes(path.read_bytes())
                        print(kept, result.stderr.decode(errors="replace")[-3000:])  # noqa: T201
            for path in paths:
                path.unlink()
    print(f"{done} mutated cores replayed, {failed} failed")  # noqa: T201
    return int(failed > 0)


def replay(program: str, paths: list[Path]) -> subprocess.CompletedProcess[bytes]:
    """Run the target; a hang is a failure as well."""
    try:
        return subprocess.run([program, *map(str, paths)], capture_output=True, timeout=300)
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(error.cmd, 124, b"", b"hangs")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
