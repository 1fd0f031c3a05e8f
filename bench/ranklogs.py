"""Measures reading of the logs of many ranks: bench/ranklogs.py [--size MB] [--rounds N].

A log of 512 ranks, mixed line by line, with the prefixes of torchrun --tee and torch. Every tool
reads the same warm file, in rounds that take turns; medians of CPU time, and peak memory from
wait4(2). ``re`` is one pass of Python's re over the lines for the prefix and twenty literals;
``grep -F`` looks for the same literals in the C locale and knows nothing of ranks.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import machine

HERE = Path(__file__).resolve().parent
RANKS = 512
LITERALS = (
    "Traceback (most recent call last)|Fatal Python error|terminate called|Segmentation fault"
    "|closing signal|exitcode|ChildFailedError|srun: error|slurmstepd: error|NCCL WARN"
    "|Watchdog caught|monitoredBarrier|CollectiveFingerPrint|Timed out waiting"
    "|onnection closed by peer|clients joined|gai error|EADDRINUSE|CUDA error|No space left"
).split("|")
OURS = (
    "from postmortem import _native; import os, sys; "
    "from postmortem.readers.ranklogs.known_lines import keep_literals; "
    "_native.read_ranklog(os.open(sys.argv[1], 0), keep_literals())"
)
THEIRS = r"""
import re, sys
prefix = re.compile(rb"^\[([\w.-]+):(\d+)\]:\[rank(\d+)\]: ")
words = re.compile(b"|".join(re.escape(word.encode()) for word in sys.argv[2:]))
ranks, hits = {}, 0
for line in open(sys.argv[1], "rb"):
    found = prefix.match(line)
    ranks[found[3]] = ranks.get(found[3], 0) + 1
    hits += words.search(line) is not None
"""


def build(path: Path, size: int) -> int:
    """Write a log of about `size` bytes and return how many it has."""
    chance = random.Random(1)
    block = []
    for step in range(40):
        for rank in chance.sample(range(RANKS), RANKS):
            loss, norm = chance.random(), chance.random()
            text = f"INFO trainer step {step} loss {loss:.4f} grad_norm {norm:.3f} tokens/s 11234"
            block.append(f"[node{rank // 8}:{rank % 8}]:[rank{rank}]: {text}\n")
    data = "".join(block).encode()
    with path.open("wb") as out:
        while out.tell() < size:
            out.write(data)
        return out.tell()


def run(command: list[str]) -> tuple[float, int]:
    """Return CPU seconds and peak KiB of a command."""
    environment = {**os.environ, "LC_ALL": "C"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def main() -> None:
    """Build the log, run all tools, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1000, metavar="MB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "ranklogs.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.out"
        size = build(path, args.size * 1_000_000)
        tools = {
            "read_ranklog": [sys.executable, "-c", OURS, str(path)],
            "re": [sys.executable, "-c", THEIRS, str(path), *LITERALS],
            "grep -F -c": ["grep", "-F", "-c", *[f"-e{word}" for word in LITERALS], str(path)],
        }
        measured: dict[str, list[tuple[float, int]]] = {name: [] for name in tools}
        for _ in range(args.rounds):
            for name, command in tools.items():
                measured[name].append(run(command))
    rows: list[dict[str, Any]] = []
    for name, results in measured.items():
        seconds = statistics.median(cpu for cpu, _ in results)
        rows.append(
            {
                "tool": name,
                "bytes": size,
                "cpu_seconds": round(seconds, 3),
                "mb_per_cpu_second": round(size / 1e6 / seconds),
                "peak_mib": max(peak for _, peak in results) >> 10,
            }
        )
        print(rows[-1])
    args.out.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
