"""Measures the search for known lines: bench/signatures.py [--size MB] [--rounds N].

Logs are written here: lines of a training job of 512 ranks, and the samples of the knowledge base
between them. Every tool reads the same warm file, in rounds that take turns; medians of wall and
CPU time, and ours against that of ``LC_ALL=C grep -c -F -f LITERALS``, the texts that our own
filter looks for. Python's `re` gets all patterns as one alternative, over the first megabytes.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import machine

from postmortem.readers.signatures import Signatures

HERE = Path(__file__).resolve().parent
RE_BYTES = 4_000_000
EVERY = {"healthy": 0, "one line in 1,000 is known": 1000, "one line in 10 is known": 10}

_OURS = """
import sys
from postmortem.readers.signatures import Signatures
tally = Signatures.load().tally_file(sys.argv[1], each=100)
print(sum(tally.counts.values()), tally.lines)
"""
_RE = """
import re, sys
from postmortem.readers.signatures import Signatures
patterns = [re.sub(r"\\?P<\\w+>", "?:", s.pattern) for s in Signatures.load().signatures]
every = re.compile("|".join(f"(?:{p})" for p in patterns).encode(), re.M)
print(sum(1 for line in open(sys.argv[1], "rb") if every.search(line)))
"""


def main() -> None:
    """Write the logs, run all tools, print and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=500, metavar="MB", help="of each log")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "signatures.json")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        literals = Path(folder) / "literals"
        literals.write_text("\n".join(_literals()) + "\n")
        for name, every in EVERY.items():
            path, head = Path(folder) / "log", Path(folder) / "head"
            size = write_log(path, every, args.size * 1_000_000)
            with path.open("rb") as stream:
                head.write_bytes(stream.read(RE_BYTES))
            rows += _measure(name, path, size, head, literals, args.rounds)
    document = {
        "machine": machine(),
        "load_at_end": os.getloadavg()[0],
        "rounds": args.rounds,
        "signatures": len(Signatures.load().signatures),
        "literals": len(_literals()),
        "rows": rows,
    }
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(document, indent=1) + "\n")
    for row in rows:
        print(
            f"{row['log']:28} {row['tool']:24} {row['cpu_s']:8.3f} s CPU {row['wall_s']:8.3f} s "
            f"{row['mb_per_cpu_s']:7.0f} MB/s of CPU  {row['against_grep']:6.2f} x grep"
        )


def write_log(path: Path, every: int, size: int) -> int:
    """Write a log of `size` bytes or a little more; each `every`-th line is a known one."""
    choose = random.Random(7)
    samples = [sample for item in Signatures.load().signatures for sample in item.samples]
    lines: list[str] = []
    for number in range(200_000):
        rank = choose.randrange(512)
        if every and number % every == 0:
            lines.append(f"[rank{rank}]: {choose.choice(samples)}")
        else:
            lines.append(_ordinary(choose, rank, number // 512))
    block = ("\n".join(lines) + "\n").encode()
    with path.open("wb") as stream:
        for _ in range(size // len(block) + 1):
            stream.write(block)
    return path.stat().st_size


def _ordinary(choose: random.Random, rank: int, step: int) -> str:
    forms = (
        f"[default{rank % 8}]:2026-11-21 13:00:{step % 60:02},{choose.randrange(1000):03} - INFO - "
        f"step {step} loss {choose.random():.4f} lr 1.0e-4 grad_norm {choose.random():.3f}",
        f"node{rank // 8}:{4000 + rank}:{5000 + rank} [{rank % 8}] NCCL INFO Channel "
        f"{choose.randrange(16):02}/16 : {rank}[{rank % 8}] -> {rank + 1}[{rank % 8}] via P2P/IPC",
        f'  File "/opt/train/model/layers.py", line {choose.randrange(900)}, in forward',
        f"[rank{rank}]: epoch 1: {step % 100}%|####      | {step}/1000 [01:23<09:12,  6.0it/s]",
    )
    return choose.choice(forms)


def _literals() -> list[str]:
    return sorted({text for texts in Signatures.load().literals() for text in texts})


def _measure(
    name: str, path: Path, size: int, head: Path, literals: Path, rounds: int
) -> list[dict[str, Any]]:
    python = [sys.executable, "-c"]
    tools: dict[str, tuple[list[str], int]] = {
        "grep -c -F -f": (["grep", "-c", "-F", "-f", str(literals), str(path)], size),
        "postmortem": ([*python, _OURS, str(path)], size),
        "Python re": ([*python, _RE, str(head)], head.stat().st_size),
    }
    path.read_bytes()  # into the page cache
    times: dict[str, list[tuple[float, float]]] = {tool: [] for tool in tools}
    for _ in range(rounds):
        for tool, (command, _) in tools.items():
            times[tool].append(_run(command))
    rows = []
    for tool, (_, amount) in tools.items():
        cpu = statistics.median(pair[0] for pair in times[tool])
        wall = statistics.median(pair[1] for pair in times[tool])
        rows.append(
            {
                "log": name,
                "tool": tool,
                "bytes": amount,
                "cpu_s": round(cpu, 4),
                "wall_s": round(wall, 4),
                "mb_per_cpu_s": round(amount / cpu / 1e6, 1),
            }
        )
    grep = rows[0]["mb_per_cpu_s"]
    for row in rows:
        row["against_grep"] = round(row["mb_per_cpu_s"] / grep, 3)
    return rows


def _run(command: list[str]) -> tuple[float, float]:
    """Return CPU seconds and wall seconds of a child."""
    before, began = _spent(), time.perf_counter()
    environment = {**os.environ, "LC_ALL": "C"}
    # Not to /dev/null, which grep notices: it then stops at the first hit.
    subprocess.run(command, stdout=subprocess.PIPE, check=False, env=environment)
    return _spent() - before, time.perf_counter() - began


def _spent() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


if __name__ == "__main__":
    main()
